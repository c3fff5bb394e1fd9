/// Tables and axes of the suites, for reports that are shown and read without the program. The suites
/// register theirs by themselves (benchmarks/suite/suite.h).
#pragma once

#include <string>

#include "reports/tables/table.h"

namespace stbench::reports {

SuiteTables tables_of(const std::string& suite);

/// Makes the axes known; several calls are as good as one.
void know_axes_of_suites();

}  // namespace stbench::reports
