/// A comparison's options, as the command line gives them.
#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.h"

namespace stbench {

struct ComparisonOptions {
  reports::ComparisonRules rules;
  std::vector<std::string> across;  ///< differences that are allowed: machine, driver, build, table
  bool allow_missing = false;
  bool run = false;                     ///< the sides are programs that measure, not reports
  std::string keep;                     ///< the folder for their reports
  bool all = false;                     ///< rows that are the same too
  std::string markdown;                 ///< path of what is compared, or of a run's tables; "-" is stdout
  std::string baselines = "baselines";  ///< the folder
};

}  // namespace stbench
