/// What the user asked of a comparison, as the command line says it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reports/compare/comparison.h"

namespace stbench {

struct ComparisonOptions {
  reports::ComparisonRules rules;
  std::vector<std::string> across;  ///< differences that are allowed: machine, driver, build
  bool allow_missing = false;
  bool all = false;                 ///< rows that are the same too
  std::string markdown, csv, json;  ///< paths; "-" is stdout
  std::string color = "auto";
  std::string baselines = "baselines";  ///< the folder
};

using ComparisonReader =
    std::function<void(ComparisonOptions&, const std::string& text, const std::string& option)>;

/// The options that a run with --baseline takes too: each with what reads its text.
const std::vector<std::pair<std::string, ComparisonReader>>& comparison_readers();

/// What `compare` is given: two sides, each files or folders of reports.
struct CompareCommand {
  std::vector<std::string> base, now;  ///< files or folders of reports
  ComparisonOptions options;
};

/// The words after `compare`: BASE NEW, or BASE... -- NEW..., and options on either side.
/// @throws UsageError naming the word and what would be right.
CompareCommand compare_command(std::vector<std::string> words);

}  // namespace stbench
