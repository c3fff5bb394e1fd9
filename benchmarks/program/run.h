/// The command run.
#pragma once

#include "benchmarks/suite/options.h"

namespace stbench {

/// Measures and reports. @returns the exit status: 0 every case ok, unstable or waived, 1 a wrong result, 2 a
/// failed case, 128 + signal when interrupted. @throws UsageError, reports::ReportError before anything is
/// measured.
int run(const Options& options);

}  // namespace stbench
