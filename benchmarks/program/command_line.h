/// The command line: options, help, and what was meant by a word that is not known.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "benchmarks/program/own_command.h"
#include "benchmarks/suite/option_spec.h"

namespace stbench {

struct RunCommand {
  Options options;
};
struct ListCommand {
  Options options;
  bool cases = false;  ///< every case of the plan, as --benchmark_list_tests prints them
};
/// Of a measurement that is run again and again.
struct CalibrateCommand {
  Options options;
};
/// A text for stdout and nothing more: help, version.
struct PrintCommand {
  std::string text;
};

using Command = std::variant<RunCommand, ListCommand, CalibrateCommand, PrintCommand, Execute>;

/// Reads the words into the options. `words` keeps those that are no option.
/// @param rule only options with this rule (option_rule) are known; 0: all
/// @returns the options that were given, in the order of the table
/// @throws UsageError
std::vector<const OptionSpec*> parse_options(std::vector<std::string>& words, Options& options,
                                             unsigned rule = 0);

/// @throws UsageError naming the word and what would be right.
Command parse_command_line(const std::vector<std::string>& arguments);

}  // namespace stbench
