/// The words of `compare`: BASE NEW, or BASE... -- NEW..., and options on either side.
#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/program/command_line.h"
#include "benchmarks/program/compare.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/program/output_paths.h"
#include "harness/errors.h"
#include "harness/suggest.h"

namespace stbench {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void refuse_option(const std::string& word) {
  auto known = option_names(option_rule::of_compare);
  known.emplace_back("--help");
  const auto name = word.substr(0, word.find('='));
  throw UsageError(fmt::format("compare has no option {}{}\nstbench --help lists all", name,
                               harness::did_you_mean(name, known)));
}

/// The words that are no options.
Words files_among(Words words, Options& options) {
  parse_options(words, options, option_rule::of_compare);
  for (const auto& word : words) {
    if (word.starts_with("-") && word != "-") refuse_option(word);
  }
  return words;
}

}  // namespace

Execute parse_compare(const Words& words) {
  Options options;
  const auto dashes = std::ranges::find(words, "--");
  const bool two_sides = dashes != words.end();
  auto base = files_among({words.begin(), dashes}, options);
  auto now = two_sides ? files_among({dashes + 1, words.end()}, options) : Words{};
  if (!two_sides && base.size() > 2)
    throw UsageError("compare: which of the reports are the new ones? write BASE1 BASE2 -- NEW1 NEW2");
  if (!two_sides && base.size() == 2) now = {base[1]}, base.pop_back();
  if (base.empty() || now.empty())
    throw UsageError(
        "compare needs two sides: stbench compare BASE NEW, or BASE1 BASE2 -- NEW1 NEW2 (files written by\n"
        "--json or --csv, or folders of them)");
  require_apart(
      {{"--markdown", options.comparison.markdown}, {"--csv", options.csv}, {"--json", options.json}});
  return [=] { return compare(base, now, options); };
}

}  // namespace stbench
