/// The commands run and list.
#pragma once

#include "benchmarks/program/command_line.h"

namespace stbench {

/// Measures and reports. @returns the exit status: 0 every case ok, unstable or waived, 1 a wrong result, 2 a
/// failed case, 128 + signal when interrupted. @throws UsageError, reports::ReportError before anything is
/// measured.
int run(const Options& options);

/// Prints the suites, or every case of the plan.
int list(const ListCommand& command);

}  // namespace stbench
