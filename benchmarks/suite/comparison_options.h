/// A comparison's options, as the command line gives them.
#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"

namespace stbench {

struct ComparisonOptions {
  reports::ComparisonRules rules;
  std::vector<std::string> across;  ///< differences that are allowed: machine, driver, build
  bool allow_missing = false;
  bool all = false;                     ///< rows that are the same too
  std::string markdown;                 ///< path; "-" is stdout
  std::string baselines = "baselines";  ///< the folder
};

}  // namespace stbench
