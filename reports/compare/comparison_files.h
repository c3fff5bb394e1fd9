/// A comparison for programs: one row per case, as CSV and as JSON (docs/compare.md has the columns).
#pragma once

#include <string>

#include "reports/compare/comparison.h"
#include "reports/compare/conclusion.h"

namespace stbench::reports {

std::string comparison_csv(const Comparison& comparison);

std::string comparison_json(const Comparison& comparison, const ComparisonRules& rules,
                            const Conclusion& conclusion);

}  // namespace stbench::reports
