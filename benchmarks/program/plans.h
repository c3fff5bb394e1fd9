/// The plans of a run, and how `list` and `--dry-run` print suites and cases.
#pragma once

#include <vector>

#include "benchmarks/suite/options.h"
#include "benchmarks/suite/suite.h"
#include "harness/machine.h"

namespace stbench {

/// The plans of the options' suites, without the cases that --filter does not match.
/// @throws UsageError if none has a case that it matches
std::vector<Plan> plans_of(const Options& options, const harness::Machine& machine);

/// Prints every case of the plans. @returns the exit status
int list_cases(const Options& options);

/// Prints the suites, their axes and methods. @returns the exit status
int list_suites();

}  // namespace stbench
