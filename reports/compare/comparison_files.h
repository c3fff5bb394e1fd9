/// A comparison for programs: a row a case, as CSV and as JSON (docs/compare.md has the columns).
#pragma once

#include <string>

#include "reports/compare/comparison.h"

namespace stbench::reports {

std::string comparison_csv(const Comparison& comparison);

/// @param exit_status that the program ends with
std::string comparison_json(const Comparison& comparison, const ComparisonRules& rules, int exit_status);

}  // namespace stbench::reports
