/// Exit statuses of a run, and of a run that is compared with a baseline. `compare` has its own
/// (reports/compare/comparison.h).
#pragma once

#include <string>
#include <vector>

#include "benchmarks/suite/expectation.h"
#include "reports/record.h"

namespace stbench {

/// One line for each row below its expectation, with its figure, and one for each expectation that matches
/// nothing that was measured. Empty if the machine is as expected.
std::vector<std::string> unmet(const std::vector<Expectation>& expectations, const reports::Report& report);

/// @param signal that asked the run to end; 0 if none did
/// @returns 128 + signal; else 1 if a result is wrong, 2 if a case failed, 1 if an expectation is not met,
/// else 0
int exit_status(const reports::Report& report, const std::vector<Expectation>& expectations, int signal);

/// @param compared exit status of the comparison with the baseline
/// @param reports of the run that was compared
/// @returns 2 if a result is wrong; 1 if nothing is slower and an expectation is not met; else `compared`
int exit_status_beside_baseline(int compared, const std::vector<reports::Report>& reports,
                                const std::vector<Expectation>& expectations);

/// @param status as waitpid() gives it
/// @returns the exit status, 128 + signal if a signal killed the process
int exit_status_of_process(int status);

/// True for 128 + signal: a signal asked the process to end, or killed it.
bool is_of_signal(int status);

}  // namespace stbench
