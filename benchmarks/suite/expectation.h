/// The speed that a machine must reach: `--expect 'FILTER>=GBPS'`.
#pragma once

#include <string>

#include "harness/pattern.h"

namespace stbench {

struct Expectation {
  std::string text;         ///< as it was given
  harness::Pattern filter;  ///< on the case ID
  double gb_per_s = 0;
};

/// @throws UsageError naming the option, the text and what would be right.
Expectation parse_expectation(const std::string& text, const std::string& option);

}  // namespace stbench
