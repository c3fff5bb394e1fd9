/// `stbench man` and `stbench schema`: the man page and the reports' JSON Schema, made from the tables that
/// the program itself goes by.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/program/commands.h"
#include "benchmarks/program/help.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/program/version.h"
#include "harness/errors.h"
#include "reports/files/json_schema.h"

namespace stbench {
namespace {

/// A text in troff: what it would take for a request or an escape is made plain.
std::string troff(std::string_view text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins_line = i == 0 || text[i - 1] == '\n';
    if (begins_line && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if (text.substr(i).starts_with("×")) {
      safe += "\\[mu]";
      ++i;
    } else {
      safe += c;
    }
  }
  return safe;
}

/// Lines as they stand.
std::string as_is(std::string_view text) { return fmt::format(".nf\n{}\n.fi\n", troff(text)); }

std::string option_entry(const OptionSpec& option) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", troff(option.name));
  if (!option.value.empty()) text += fmt::format(" \\fI{}\\fR", troff(option.value));
  text += fmt::format("\n{}\n", troff(option.brief));
  if (const auto more = text_of_more(option); !more.empty()) text += fmt::format(".br\n{}\n", troff(more));
  if (option.values)
    text += fmt::format(".br\nValues: {}.\n", troff(fmt::format("{}", fmt::join(option.values(), ", "))));
  return text;
}

std::string command_entries() {
  std::string text;
  for (const auto& command : commands())
    text += fmt::format(".TP\n\\fBstbench {}\\fR\n{}\n", troff(command.usage), troff(command.summary));
  return text;
}

std::string man_page() {
  std::string options;
  std::string_view title;
  for (const auto& option : option_table()) {
    if (title != title_of(option.group))
      options += fmt::format(".SS {}\n", troff(title = title_of(option.group)));
    options += option_entry(option);
  }
  return fmt::format(
      ".TH STBENCH 1 \"\" \"{}\" \"User Commands\"\n"
      ".SH NAME\nstbench \\- measure how fast rows of a table move, and check every number\n"
      ".SH SYNOPSIS\n{}.SH OPTIONS\n{}.SH NOTES\n{}.SH EXAMPLES\n{}",
      troff(program_name), command_entries(), options, as_is(help_notes()), as_is(help_examples()));
}

void require_none(std::string_view command, const std::vector<std::string>& words) {
  if (!words.empty())
    throw UsageError(fmt::format("{} takes no '{}': it prints one text, for a file", command, words.front()));
}

}  // namespace

Execute parse_man(const std::vector<std::string>& words) {
  require_none("man", words);
  return printing(man_page());
}

Execute parse_schema(const std::vector<std::string>& words) {
  require_none("schema", words);
  return printing(reports::json_schema());
}

}  // namespace stbench
