/// Tables of the suites, for reports that are shown and read without the program. In a program with
/// suites.cpp the axes of docs/report.schema.json are known, too. The suites register theirs by themselves
/// (benchmarks/suite/suite.h).
#pragma once

#include <string>

#include "reports/tables/table.h"

namespace stbench::reports {

SuiteTables tables_of(const std::string& suite);

}  // namespace stbench::reports
