#include "benchmarks/program/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/closed_axes.h"
#include "benchmarks/suite/suite.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/suggest.h"
#include "reports/number.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;
using Specs = std::vector<OptionSpec>;
using namespace option_rule;
using namespace option_reader;

constexpr unsigned axis = of_suites | chooses_cases;
constexpr unsigned of_comparison = compares | not_measured | of_compare;

/// Values that do not change.
OptionSpec::Values values(Names fixed) {
  return [fixed = std::move(fixed)] { return fixed; };
}

/// A whole number from `low` on.
template <class Field>
Reader number(Field Options::*field, std::int64_t low, std::int64_t high) {
  return [=](Options& options, const std::string& given, const OptionSpec& spec) {
    const auto value = harness::parse_count(given, spec.name);
    if (value < low || value > high)
      throw UsageError(fmt::format("{} {}: use {} to {}", spec.name, given, low, high));
    options.*field = static_cast<int>(value);
  };
}

Reader flag(bool Options::*field) {
  return [=](Options& options, const std::string&, const OptionSpec&) { options.*field = true; };
}

/// A reader of a text of the comparison, which must not be empty.
Reader comparison_text(std::string ComparisonOptions::*field) {
  return [=](Options& options, const std::string& given, const OptionSpec& spec) {
    if (given.empty()) throw UsageError(fmt::format("{}: the value is empty", spec.name));
    options.comparison.*field = given;
  };
}

Reader comparison_flag(bool ComparisonOptions::*field) {
  return [=](Options& options, auto&, auto&) { options.comparison.*field = true; };
}

/// "2%" or "0.02".
double share_of(const std::string& given, const OptionSpec& spec) {
  constexpr double percents = 100;
  const bool percent = given.ends_with('%');
  const auto number = reports::real_from(percent ? given.substr(0, given.size() - 1) : given);
  const double share = number.value_or(-1) / (percent ? percents : 1);
  if (!(share > 0 && share <= 10))
    throw UsageError(
        fmt::format("{} {}: a share above 0, as in 2% or 0.02, would be right", spec.name, given));
  return share;
}

void read_effect(Options& options, const std::string& given, const OptionSpec& spec) {
  options.comparison.rules.effect = share_of(given, spec);
}

void read_must_see(Options& options, const std::string& given, const OptionSpec& spec) {
  options.comparison.rules.must_see = share_of(given, spec);
}

/// In other columns more is better, or they are no quantities.
void read_metric(Options& options, const std::string& given, const OptionSpec& spec) {
  const auto ends = [&](const char* suffix) { return given.ends_with(suffix); };
  if (given != "auto" && given != "time" && !ends("_s") && !ends("_bytes") && !ends("overhead_ratio"))
    throw UsageError(fmt::format(
        "{} {}: auto, time, or a column of which less is better (latency_p99_s, peak_bytes) would be right",
        spec.name, given));
  options.comparison.rules.metric = given;
}

void read_filter(Options& options, const std::string& given, const OptionSpec& spec) {
  const harness::Pattern compiled(given, spec.name);
  options.filter = given;
}

void read_google_color(Options& options, const std::string& given, const OptionSpec& spec) {
  if (given != "yes" && given != "no") require_known(given, spec.name, spec.values());
  if (given != "auto") options.color = given == "true" || given == "yes" ? "always" : "never";
}

Names suite_names() {
  Names all;
  for (const auto& suite : suites()) all.push_back(suite.name);
  return all;
}

std::string listed(const Names& all) { return fmt::format("{}", fmt::join(all, ", ")); }

/// With the default in brackets.
std::string presets_in_brief() {
  auto all = preset_names();
  std::ranges::replace(all, Options{}.preset, fmt::format("[{}]", Options{}.preset));
  return listed(all);
}

Specs of_plan() {
  using enum OptionGroup;
  return {
      {what, 0, "--suite LIST", listed(suite_names()), names(&Options::suites), suite_names},
      {what, 0, "--preset NAME", presets_in_brief(), one_of_values(&Options::preset), preset_names},
      {what, 0, "--case 'CASE_ID'", "one case, as reports name it, and what it is compared with",
       text(&Options::case_id)},
      {what, chooses_cases, "--filter REGEX", "only cases whose case ID matches", read_filter},
      {what, 0, "--dry-run", "print the cases and stop", flag(&Options::dry_run)},
      {axes, axis, "--direction LIST", listed(direction_names()), names(&Options::directions),
       direction_names},
      {axes, axis, "--placement LIST", listed(closed_axes::placements()), names(&Options::placements),
       closed_axes::placements},
      {axes, axis, "--method LIST", "what moves the rows; stbench list names them", names(&Options::methods),
       [] { return method_names(false); }},
      {axes, axis, "--peers LIST", "other programs in the same rounds; stbench list names them",
       names(&Options::peers), [] { return method_names(true); }},
      {axes, axis, "--device LIST", "where the model tensor is: cpu, cuda, cuda:N", texts(&Options::devices)},
      {axes, axis, "--rows LIST", "rows of the table (1M)", counts(&Options::rows)},
      {axes, axis | joined, "--dim LIST", "elements per row (128)", counts(&Options::dims)},
      {axes, axis, "--row-bytes LIST", "row width in bytes, instead of --dim and --dtype",
       counts(&Options::row_bytes)},
      {axes, axis, "--batch LIST", "rows per operation (131072)", counts(&Options::batches)},
      {axes, axis, "--dtype LIST", listed(closed_axes::dtypes()), names(&Options::dtypes),
       closed_axes::dtypes},
      {axes, axis, "--index-dtype LIST", listed(closed_axes::index_dtypes()), names(&Options::index_dtypes),
       closed_axes::index_dtypes},
      {axes, axis, "--distribution LIST", "unique, uniform, sequential, sorted, zipf:S, file:PATH",
       texts(&Options::distributions)},
      {axes, axis, "--cores LIST", "threads, pinned (1 and all)", counts(&Options::cores)},
      {axes, axis | joined, "--callers LIST", "threads that call at once (1)", counts(&Options::callers)},
      {axes, axis, "--cache LIST", "warm, cold (warm)", names(&Options::caches), closed_axes::caches},
      {axes, axis | joined, "--isa LIST", "instruction set of our host kernels (best)", names(&Options::isas),
       closed_axes::isas},
  };
}

Specs of_run() {
  using enum OptionGroup;
  return {
      {effort, of_suites, "--samples N", "exactly N samples per case",
       number(&Options::samples, 1, 1'000'000)},
      {effort, of_suites | joined, "--warmup N", "N untimed runs first (1)",
       number(&Options::warmup, 1, 1'000'000)},
      {effort, 0, "--timeout S", "limit of one step of one case; such a case is failed (120)",
       [](Options& options, const std::string& given, const OptionSpec& spec) {
         options.timeout_s = harness::parse_seconds(given, spec.name);
       }},
      {effort, 0, "--time-budget S", "the whole run ends in time: fewer rounds, then fewer cells",
       [](Options& options, const std::string& given, const OptionSpec& spec) {
         options.time_budget_s = harness::parse_seconds(given, spec.name);
         if (options.time_budget_s <= 0)
           throw UsageError(fmt::format("{} {}: use a time above 0, as in 60s", spec.name, given));
       }},
      {effort, of_suites, "--verify first|sampled|every",
       "check the first and last run, some of each sample, all", one_of_values(&Options::verify),
       values({"first", "sampled", "every"})},
      {effort, rare, "--seed N", "of fill, indices and order (1)",
       [](Options& options, const std::string& given, const OptionSpec& spec) {
         options.seed = static_cast<std::uint64_t>(harness::parse_count(given, spec.name));
       }},
      {output, one_process | not_measured | of_compare | of_history, "--csv FILE", "reports",
       text(&Options::csv)},
      {output, one_process | not_measured | of_compare | joined, "--json FILE",
       "- is stdout, and then nothing else goes there", text(&Options::json)},
      {output, one_process | rare, "--events FILE", "cases as they finish", text(&Options::events)},
      {output, one_process | rare | joined, "--trace FILE", "a time line for Perfetto",
       text(&Options::trace)},
      {output, repeatable | rare, "--expect 'FILTER>=GBPS'", "exit status 1 if a row that matches is slower",
       [](Options& options, const std::string& given, const OptionSpec& spec) {
         options.expectations.push_back(parse_expectation(given, spec.name));
       }},
      {output, not_measured | of_compare | rare, "--markdown FILE",
       "the tables, or the comparison, as Markdown", comparison_text(&ComparisonOptions::markdown)},
      {output, of_compare | of_history, "--quiet", "only the conclusion and errors", flag(&Options::quiet)},
      {output, of_compare | of_history | rare, "--color auto|always|never", "colour on the screen",
       one_of_values(&Options::color), values({"auto", "always", "never"})},
  };
}

Specs of_comparisons() {
  using C = ComparisonOptions;
  constexpr auto group = OptionGroup::comparing;
  const auto read_across = [](Options& options, const std::string& given, const OptionSpec& spec) {
    options.comparison.across = harness::parse_names(given, spec.name, spec.values());
  };
  return {
      {group, not_measured | of_compare | compare_only | rare, "--run",
       "compare: measure with two programs in turn; BASE NEW -- OPTIONS of the run",
       comparison_flag(&C::run)},
      {group, not_measured | of_compare | compare_only | rare, "--keep DIR",
       "with --run, keep the reports as DIR/base and DIR/new", comparison_text(&C::keep)},
      {group, of_comparison | of_history, "--effect SHARE", "smallest change that counts (2%)", read_effect},
      {group, of_comparison, "--must-see SHARE", "exit status 4 if a slowdown of that size could go unseen",
       read_must_see},
      {group, of_comparison | of_history, "--metric NAME",
       "auto, time, or a column of which less is better (auto)", read_metric},
      {group, of_comparison | of_history, "--across LIST", "what may differ: machine, driver, build, table",
       read_across, values({"machine", "driver", "build", "table"})},
      {group, of_comparison | of_history, "--allow-missing", "do not fail on lost or failed cases",
       comparison_flag(&C::allow_missing)},
      {group, of_comparison, "--all", "print unchanged rows, too", comparison_flag(&C::all)},
      {group, not_measured, "--baseline NAME", "run, and compare with a saved baseline",
       text(&Options::baseline)},
      {group, not_measured, "--save-baseline NAME", "run, and keep the reports as a baseline",
       text(&Options::save_baseline)},
      {group, not_measured | of_compare, "--processes N",
       "measure in N processes (1; compare --run: 5 per side; calibrate: 10)",
       number(&Options::processes, 1, 1000)},
      {group, not_measured | of_compare, "--baselines DIR",
       "where baselines and calibrations are (baselines)", comparison_text(&C::baselines)},
  };
}

/// Options that the command line is searched for; they read nothing.
void only_seen(Options&, const std::string&, const OptionSpec&) {}

Specs of_program_and_google() {
  using enum OptionGroup;
  return {
      {program, 0, "-h", "help on one screen", only_seen},
      {program, joined, "--help", "on everything", only_seen},
      {program, joined, "--version", "name and version", only_seen},
      {google_benchmark, 0, "--benchmark_list_tests", "the cases, as --dry-run prints them", only_seen},
      {google_benchmark, chooses_cases, "--benchmark_filter REGEX", "as --filter", read_filter},
      {google_benchmark, one_process | not_measured, "--benchmark_out FILE",
       "the samples as Google Benchmark writes them", text(&Options::benchmark_out)},
      {google_benchmark, not_measured, "--benchmark_out_format NAME", "format of that file",
       one_of_values(&Options::benchmark_out_format), values({"json", "csv", "console"})},
      {google_benchmark, 0, "--benchmark_color NAME", "as --color", read_google_color,
       values({"auto", "true", "false"})},
  };
}

}  // namespace

const std::vector<OptionSpec>& option_table() {
  static const Specs table = [] {
    Specs all;
    for (const auto& part :
         {of_plan(), options_of_suites(), of_run(), of_comparisons(), of_program_and_google()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

const OptionSpec* option_named(std::string_view name) {
  const auto found = std::ranges::find(option_table(), name, &OptionSpec::name);
  return found == option_table().end() ? nullptr : &*found;
}

std::vector<std::string> option_names(unsigned rule) {
  Names all;
  for (const auto& spec : option_table()) {
    if (rule == 0 || spec.has(rule)) all.push_back(spec.name);
  }
  return all;
}

std::string_view title_of(OptionGroup group) {
  constexpr std::string_view titles[] = {"What",
                                         "Axes",
                                         "Options of single suites",
                                         "Effort",
                                         "Output",
                                         "Comparing (docs/compare.md)",
                                         "Program",
                                         "Google Benchmark's flags that work here"};
  return titles[static_cast<std::size_t>(group)];
}

}  // namespace stbench
