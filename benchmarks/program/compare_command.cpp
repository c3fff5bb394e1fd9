/// The words of `compare`: BASE NEW, or BASE... -- NEW..., and options on either side; or --run, options, and
/// BASE NEW -- options of the run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

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

/// Reports on both sides: two words, or the words before and after "--".
Execute compare_reports(Words base, Words now, bool two_sides, const Options& options) {
  if (options.comparison.run || options.processes || !options.comparison.keep.empty())
    throw UsageError("compare: --processes and --keep go with --run, which stands before the --");
  if (!two_sides && base.size() > 2)
    throw UsageError("compare: which of the reports are the new ones? write BASE1 BASE2 -- NEW1 NEW2");
  if (!two_sides && base.size() == 2) now = {base[1]}, base.pop_back();
  if (base.empty() || now.empty())
    throw UsageError(
        "compare needs two sides: stbench compare BASE NEW, or BASE1 BASE2 -- NEW1 NEW2 (files written by\n"
        "--json or --csv, or folders of them)");
  return [=] { return compare(base, now, options); };
}

constexpr std::array<std::string_view, 5> kMeasuresNothing{"--dry-run", "--help", "-h", "--version",
                                                           "--benchmark_list_tests"};

/// Two programs, and the options that both measure with.
Execute compare_runs(const Words& programs, const Words& measuring, const Options& options) {
  if (programs.size() != 2 || measuring.empty())
    throw UsageError(
        "compare --run needs two programs and the options of a run:\n"
        "stbench compare --run BASE/stbench NEW/stbench -- --suite transfer");
  for (const auto& word : measuring) {
    const auto* spec = option_named(word.substr(0, word.find('=')));
    if (spec == nullptr) continue;
    if (std::ranges::find(kMeasuresNothing, spec->name) != kMeasuresNothing.end())
      throw UsageError(
          fmt::format("{} measures nothing; compare --run needs the options of a run", spec->name));
    if (spec->has(option_rule::one_process | option_rule::not_measured))
      throw UsageError(fmt::format("{} is no option of the processes that compare --run measures with{}",
                                   spec->name,
                                   spec->has(option_rule::of_compare) ? "; it stands before the --" : ""));
  }
  return [=] { return compare_programs({programs[0], programs[1]}, measuring, options); };
}

}  // namespace

Execute parse_compare(const Words& words) {
  Options options;
  const auto dashes = std::ranges::find(words, "--");
  const bool two_sides = dashes != words.end();
  const Words before = files_among({words.begin(), dashes}, options);
  Words after(two_sides ? dashes + 1 : dashes, words.end());
  const bool runs = options.comparison.run;
  if (!runs) after = files_among(after, options);
  require_apart(
      {{"--markdown", options.comparison.markdown}, {"--csv", options.csv}, {"--json", options.json}});
  return runs ? compare_runs(before, after, options) : compare_reports(before, after, two_sides, options);
}

}  // namespace stbench
