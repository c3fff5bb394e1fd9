/// The report of a run before anything is measured.
#pragma once

#include "benchmarks/suite/options.h"
#include "harness/machine.h"
#include "reports/record.h"

namespace stbench {

/// A report without cases: program, options, start, environment, and the axes of the options' suites.
reports::Report new_report(const Options& options, const harness::Machine& machine);

}  // namespace stbench
