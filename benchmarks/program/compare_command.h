/// The words of `compare`.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/suite/comparison_options.h"

namespace stbench {

/// What `compare` is given: two sides, each files or folders of reports.
struct CompareCommand {
  std::vector<std::string> base, now;  ///< files or folders of reports
  ComparisonOptions options;
};

/// The words after `compare`: BASE NEW, or BASE... -- NEW..., and options on either side.
/// @throws UsageError naming the word and what would be right.
CompareCommand compare_command(const std::vector<std::string>& words);

}  // namespace stbench
