/// The command line: options, help, and what was meant by a word that is not known.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "benchmarks/options.h"

namespace stbench {

struct RunCommand {
  Options options;
};
struct ListCommand {
  Options options;
  bool cases = false;  ///< every case of the plan, as --benchmark_list_tests prints them
};
struct ShowCommand {
  std::string report;
  std::string color = "auto";
};
struct CalibrateCommand {
  Options options;
};
/// A text for stdout and nothing more: help, version.
struct PrintCommand {
  std::string text;
};

using Command =
    std::variant<RunCommand, ListCommand, ShowCommand, CompareCommand, CalibrateCommand, PrintCommand>;

/// @throws UsageError naming the word and what would be right.
Command parse_command_line(const std::vector<std::string>& arguments);

}  // namespace stbench
