/// The command line: options, help, and what was meant by a word that is not known.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/program/commands.h"
#include "benchmarks/suite/option_spec.h"

namespace stbench {

/// A command line that was understood.
struct Command {
  Execute execute;
  bool measures = false;
  Options options{};  ///< of a run or a calibration
};

/// Reads the words into the options. `words` keeps those that are no option.
/// @param rule only options with this rule (option_rule) are known; 0: all
/// @returns the options that were given, in the order of the table
/// @throws UsageError
std::vector<const OptionSpec*> parse_options(std::vector<std::string>& words, Options& options,
                                             unsigned rule = 0);

/// @throws UsageError naming the word and what would be right.
Command parse_command_line(const std::vector<std::string>& arguments);

}  // namespace stbench
