/// What a machine must reach: `--expect 'FILTER>=GBPS'`.
#pragma once

#include <string>
#include <vector>

#include "harness/pattern.h"
#include "reports/record.h"

namespace stbench {

struct Expectation {
  std::string text;         ///< as it was given
  harness::Pattern filter;  ///< on a case's sentence
  double gb_per_s = 0;
};

/// @throws UsageError naming the option, the text and what would be right.
Expectation parse_expectation(const std::string& text, const std::string& option);

/// One line for each row below its floor with its figure, and one for each expectation that nothing measured
/// matches; none where the machine is as expected.
std::vector<std::string> unmet(const std::vector<Expectation>& expectations, const reports::Report& report);

}  // namespace stbench
