#include "benchmarks/program/compare_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/program/command_line.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/program/output_paths.h"
#include "harness/errors.h"
#include "harness/suggest.h"

namespace stbench {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void refuse_option(const std::string& word) {
  Words known{"--help"};
  for (const auto& spec : option_table()) {
    if (spec.has(option_rule::of_compare)) known.push_back(spec.name);
  }
  const auto name = word.substr(0, word.find('='));
  const auto meant = harness::did_you_mean(name, known);
  throw UsageError(fmt::format("compare has no option {}{}\nstbench --help lists all", name,
                               meant.empty() ? "" : "; " + meant));
}

/// The words that are no options.
Words files_among(Words words, Options& options) {
  parse_options(words, options, option_rule::of_compare);
  for (const auto& word : words) {
    if (word.starts_with("-") && word != "-") refuse_option(word);
  }
  return words;
}

/// The files of both sides: two words, or what stands before and after "--".
void take_sides(const Words& before, const Words* after, CompareCommand& command) {
  if (after != nullptr) {
    command.base = before, command.now = *after;
  } else if (before.size() == 2) {
    command.base = {before[0]}, command.now = {before[1]};
  } else if (before.size() > 2) {
    throw UsageError("compare: which of the reports are the new ones? write BASE1 BASE2 -- NEW1 NEW2");
  }
  if (command.base.empty() || command.now.empty()) {
    throw UsageError(
        "compare needs two sides: stbench compare BASE NEW, or BASE1 BASE2 -- NEW1 NEW2 (files written by\n"
        "--json or --csv, or folders of them)");
  }
}

}  // namespace

CompareCommand compare_command(const Words& words) {
  CompareCommand command;
  Options options;
  const auto dashes = std::ranges::find(words, "--");
  const bool two_sides = dashes != words.end();
  const auto before = files_among({words.begin(), dashes}, options);
  const auto after = two_sides ? files_among({dashes + 1, words.end()}, options) : Words{};
  take_sides(before, two_sides ? &after : nullptr, command);
  command.options = options.comparison;
  command.options.csv = options.csv, command.options.json = options.json;
  command.options.color = options.color;
  require_apart({{"--markdown", command.options.markdown},
                 {"--csv", command.options.csv},
                 {"--json", command.options.json}});
  return command;
}

}  // namespace stbench
