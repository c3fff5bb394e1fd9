#include "benchmarks/program/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string_view>
#include <vector>

#include "benchmarks/program/commands.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/program/version.h"
#include "benchmarks/suite/suite.h"
#include "reports/style.h"

namespace stbench {
namespace {

constexpr std::size_t text_column = 30;  // of the options

constexpr std::string_view usage_lines =
    R"(stbench measures how fast rows of a table move, and checks every number.

Usage: stbench [run] --suite transfer,memory,... [OPTIONS]
)";

/// One line per command except `run`: those that measure or show, and in the long help all.
std::string command_lines(bool everything) {
  std::string text;
  for (const auto& command : commands()) {
    if (command.name != "run" && (everything || !command.prints_itself))
      text += fmt::format("       stbench {:<19} {}\n", command.usage, command.summary);
  }
  return text;
}

/// A section of help_texts.txt; empty if there is none.
std::string_view section(const std::string& key) {
  const std::string_view all = help_texts;
  const auto head = "\n# " + key + "\n";
  const auto begin = all.find(head);
  if (begin == std::string_view::npos) return {};
  const auto text = all.substr(begin + head.size());
  const auto end = text.find("\n# ");
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

/// Text that the suites add to an option's.
std::string text_of_suites(const std::string& option) {
  std::string text;
  for (const auto& suite : suites()) {
    if (option == "--suite") text += fmt::format("{}: {}. ", suite.name, suite.summary);
    for (const auto& preset : suite.presets) {
      if (option == "--preset" && !preset.help.empty())
        text += fmt::format("{} (--suite {}): {} ", preset.name, suite.name, preset.help);
    }
    std::vector<std::string> peers;
    for (const auto& method : suite.methods()) {
      if (option == "--peers" && method.peer) peers.push_back(method.name);
    }
    if (!peers.empty()) text += fmt::format("--suite {}: {}. ", suite.name, fmt::join(peers, ", "));
  }
  return text;
}

bool is_long_only(OptionGroup group) {
  return group == OptionGroup::single_suites || group == OptionGroup::comparing ||
         group == OptionGroup::google_benchmark;
}

std::string with_value(const OptionSpec& spec) {
  return spec.value.empty() ? spec.name : spec.name + " " + spec.value;
}

/// Options that stand on one line of the help.
struct HelpLine {
  std::string options, brief, more;

  explicit HelpLine(const OptionSpec& spec)
      : options(with_value(spec)), brief(spec.brief), more(text_of_more(spec)), last_value_(spec.value) {}

  void join(const OptionSpec& spec) {
    if (spec.value == last_value_ && !last_value_.empty())
      options.erase(options.size() - last_value_.size() - 1);  // it follows for both
    options += ", " + with_value(spec);
    brief += "; " + spec.brief;
    more += text_of_more(spec);
    last_value_ = spec.value;
  }

 private:
  std::string last_value_;
};

std::string lines_of_group(OptionGroup group, bool everything) {
  std::vector<HelpLine> lines;
  for (const auto& spec : option_table()) {
    if (spec.group != group || (spec.has(option_rule::rare) && !everything)) continue;
    if (spec.has(option_rule::joined)) {
      lines.back().join(spec);
    } else {
      lines.emplace_back(spec);
    }
  }
  const bool headed = everything || group != OptionGroup::program;
  std::string text = headed ? fmt::format("\n{}:\n", title_of(group)) : "";
  for (const auto& line : lines) {
    const auto head = fmt::format("  {:<27} ", line.options);
    const auto brief = reports::wrapped(line.brief, reports::kScreenWidth - text_column, 0);
    text += head + fmt::format("{}\n", fmt::join(brief, "\n" + std::string(text_column, ' ')));
    if (!everything || line.more.empty()) continue;
    for (const auto& more : reports::wrapped(line.more, reports::kScreenWidth - text_column, 0))
      text += std::string(text_column, ' ') + more + "\n";
  }
  return text;
}

std::string option_lines(bool everything) {
  std::string text;
  auto group = OptionGroup::program;
  for (const auto& spec : option_table()) {
    const bool is_new = text.empty() || spec.group != group;
    group = spec.group;
    if (is_new && (everything || !is_long_only(group))) text += lines_of_group(group, everything);
  }
  return text;
}

}  // namespace

std::string text_of_more(const OptionSpec& spec) {
  std::istringstream words(
      fmt::format("{} {}", spec.more.empty() ? section(spec.name) : spec.more, text_of_suites(spec.name)));
  std::string text;
  for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string_view help_notes() { return section("notes"); }
std::string_view help_examples() { return section("examples"); }

std::string short_help_text() {
  return fmt::format("{}{}{}\n{}", usage_lines, command_lines(false), option_lines(false), help_examples());
}

std::string long_help_text() {
  return fmt::format("{}{}{}\n{}\n{}", usage_lines, command_lines(true), option_lines(true), help_notes(),
                     help_examples());
}

std::string version_text() { return std::string(program_name) + "\n"; }

}  // namespace stbench
