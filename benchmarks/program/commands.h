/// The commands of the program. Those with a command line of their own are each in a file of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stbench {

/// A command as it was asked for: done when called. @returns the exit status
using Execute = std::function<int()>;

/// Writes the text to the standard output.
Execute printing(std::string text);

struct CommandSpec {
  std::string_view name;
  std::string_view usage;    ///< as the help shows it, without "stbench "
  std::string_view summary;  ///< a few words
  /// The words after the command's name. @throws UsageError naming the word and what would be right.
  /// Null for commands whose options are those of the help.
  Execute (*parse)(const std::vector<std::string>& words) = nullptr;
  bool prints_itself = false;          ///< what it prints is about the program, not about machines or reports
  bool takes_reports = false;          ///< files of reports among its words, for completion
  std::vector<std::string> options{};  ///< the words that it takes, for completion
};

/// All of them, in the order of the help; the first is what no command means.
const std::vector<CommandSpec>& commands();

/// The command of that name, or null.
const CommandSpec* command_named(std::string_view name);

/// `show REPORT [--columns LIST] [--sort [-]COLUMN] [--filter REGEX] [--markdown FILE] [--color WHEN]`
/// (show_command.cpp)
Execute parse_show(const std::vector<std::string>& words);
/// `compare BASE NEW`, `compare BASE... -- NEW...`, or `compare --run BASE NEW -- OPTIONS`
/// (compare_command.cpp)
Execute parse_compare(const std::vector<std::string>& words);
/// `history REPORT...` (history_command.cpp)
Execute parse_history(const std::vector<std::string>& words);
/// `doctor [--text|--json] [--strict]` (doctor_command.cpp)
Execute parse_doctor(const std::vector<std::string>& words);
/// `advise --rows R --dim D --batch N --step-ms T` (advise_command.cpp)
Execute parse_advise(const std::vector<std::string>& words);
/// `tune` (tune_command.cpp)
Execute parse_tune(const std::vector<std::string>& words);

/// `completion bash|zsh|fish` (completion_command.cpp)
Execute parse_completion(const std::vector<std::string>& words);
/// `man` and `schema` (man_command.cpp)
Execute parse_man(const std::vector<std::string>& words);
Execute parse_schema(const std::vector<std::string>& words);

}  // namespace stbench
