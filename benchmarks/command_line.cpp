#include "benchmarks/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <regex>

#include "benchmarks/help.h"
#include "benchmarks/method.h"
#include "benchmarks/suite.h"
#include "benchmarks/transfer_plan.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/suggest.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;

Names suite_names() {
  Names names;
  for (const auto& suite : suites()) names.push_back(suite.name);
  return names;
}

Names method_names() {
  Names names;
  for (const auto& method : methods()) names.push_back(method.name);
  return names;
}

std::string one_of(const std::string& text, const std::string& option, const Names& known) {
  if (std::find(known.begin(), known.end(), text) == known.end())
    throw UsageError(harness::unknown_name(text, option, known));
  return text;
}

std::uint64_t parse_seed(const std::string& text) {
  return static_cast<std::uint64_t>(harness::parse_count(text, "--seed"));
}

int parse_small(const std::string& text, const std::string& option, std::int64_t low, std::int64_t high) {
  const auto value = harness::parse_count(text, option);
  if (value < low || value > high)
    throw UsageError(fmt::format("{} {}: use {} to {}", option, text, low, high));
  return static_cast<int>(value);
}

/// A regular expression that compiles. @throws UsageError with the library's words.
std::string parse_filter(const std::string& text) {
  try {
    const std::regex compiled(text);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("--filter '{}' is no regular expression: {}", text, error.what()));
  }
  return text;
}

Names names(std::string_view text, std::string_view option, const Names& known) {
  return harness::parse_names(text, option, known);
}

/// The distributions of a comma list; their spelling is checked where they are read.
Names split(const std::string& text, const std::string& option) {
  const auto items = harness::split_list(text, option);
  return {items.begin(), items.end()};
}

using Reader = std::function<void(Options&, const std::string& text, const std::string& option)>;

/// What reads each option's text. The texts of the help are in help.cpp; a test holds the two against each
/// other.
const std::vector<std::pair<std::string, Reader>>& readers() {
  using O = Options&;
  using T = const std::string&;
  static const std::vector<std::pair<std::string, Reader>> all{
      {"--suite", [](O o, T t, T n) { o.suites = names(t, n, suite_names()); }},
      {"--direction", [](O o, T t, T n) { o.directions = names(t, n, transfer_axes::directions()); }},
      {"--placement", [](O o, T t, T n) { o.placements = names(t, n, transfer_axes::placements()); }},
      {"--method", [](O o, T t, T n) { o.methods = names(t, n, method_names()); }},
      {"--device", [](O o, T t, T n) { o.devices = split(t, n); }},
      {"--dtype", [](O o, T t, T n) { o.dtypes = names(t, n, transfer_axes::dtypes()); }},
      {"--index-dtype", [](O o, T t, T n) { o.index_dtypes = names(t, n, transfer_axes::index_dtypes()); }},
      {"--distribution", [](O o, T t, T n) { o.distributions = split(t, n); }},
      {"--rows", [](O o, T t, T n) { o.rows = harness::parse_counts(t, n); }},
      {"--dim", [](O o, T t, T n) { o.dims = harness::parse_counts(t, n); }},
      {"--row-bytes", [](O o, T t, T n) { o.row_bytes = harness::parse_counts(t, n); }},
      {"--batch", [](O o, T t, T n) { o.batches = harness::parse_counts(t, n); }},
      {"--cores", [](O o, T t, T n) { o.cores = harness::parse_counts(t, n); }},
      {"--preset", [](O o, T t, T n) { o.preset = one_of(t, n, preset_names()); }},
      {"--filter", [](O o, T t, T) { o.filter = parse_filter(t); }},
      {"--case", [](O o, T t, T) { o.case_sentence = t; }},
      {"--samples", [](O o, T t, T n) { o.samples = parse_small(t, n, 1, 1'000'000); }},
      {"--warmup", [](O o, T t, T n) { o.warmup = parse_small(t, n, 1, 1'000'000); }},
      {"--timeout", [](O o, T t, T n) { o.timeout_s = harness::parse_seconds(t, n); }},
      {"--verify",
       [](O o, T t, T n) {
         o.verify_every = one_of(t, n, {"first", "every"}) == "every";
       }},
      {"--seed", [](O o, T t, T) { o.seed = parse_seed(t); }},
      {"--csv", [](O o, T t, T) { o.csv = t; }},
      {"--json", [](O o, T t, T) { o.json = t; }},
      {"--color",
       [](O o, T t, T n) {
         o.color = one_of(t, n, {"auto", "always", "never"});
       }},
      {"--benchmark_filter", [](O o, T t, T) { o.filter = parse_filter(t); }},
      {"--benchmark_out", [](O o, T t, T) { o.benchmark_out = t; }},
      {"--benchmark_out_format",
       [](O o, T t, T n) {
         o.benchmark_out_format = one_of(t, n, {"json", "csv", "console"});
       }},
      {"--benchmark_color",
       [](O o, T t, T n) {
         const bool on = one_of(t, n, {"auto", "true", "false", "yes", "no"}) != "auto";
         if (on) o.color = t == "true" || t == "yes" ? "always" : "never";
       }},
  };
  return all;
}

Names option_names() {
  Names known{"-h", "--help", "--version", "--dry-run", "--benchmark_list_tests"};
  for (const auto& [name, reader] : readers()) known.push_back(name);
  return known;
}

/// Paths of a report are base names: no user or folder names.
std::string without_folder(const std::string& argument) {
  const auto equals = argument.find('=');
  const auto value = equals == std::string::npos || !argument.starts_with("--") ? 0 : equals + 1;
  const auto text = argument.substr(value);
  const auto begin = text.starts_with("file:") ? value + 5 : value;
  if (argument.find('/', begin) == std::string::npos) return argument;
  return argument.substr(0, begin) + std::filesystem::path(argument.substr(begin)).filename().string();
}

/// What CLI11 could not place: an option that is not known, or a word that should not be there.
[[noreturn]] void refuse_extra(const std::string& extra) {
  if (!extra.starts_with("-")) {
    const Names commands{"run", "list", "show"};
    const auto meant = harness::did_you_mean(extra, commands);
    throw UsageError(fmt::format(
        "unexpected word '{}'{}\ncommands are run, list and show; a suite is named with --suite {}", extra,
        meant.empty() ? "" : "; " + meant, extra));
  }
  const auto name = extra.substr(0, extra.find('='));
  if (name.starts_with("--benchmark_")) {
    throw UsageError(fmt::format(
        "{} is not supported; of Google Benchmark's flags --benchmark_list_tests, --benchmark_filter, "
        "--benchmark_out, --benchmark_out_format and --benchmark_color are",
        name));
  }
  const auto meant = harness::did_you_mean(name, option_names());
  throw UsageError(
      fmt::format("unknown option {}{}\nstbench --help lists all", name, meant.empty() ? "" : "; " + meant));
}

void add_options(CLI::App& app, Options& options) {
  for (const auto& [name, reader] : readers()) {
    const auto read = [&options, &reader = reader, option = name](const CLI::results_t& texts) {
      if (texts.size() > 1)
        throw UsageError(
            fmt::format("{} is given {} times; once is right, with a comma list", option, texts.size()));
      reader(options, texts.front(), option);
      return true;
    };
    app.add_option(name, CLI::callback_t(read))
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

void check_together(const Options& options) {
  if (options.csv == "-" && options.json == "-")
    throw UsageError("--csv - and --json -: only one report can go to stdout");
  if (!options.case_sentence.empty() && !options.filter.empty())
    throw UsageError("--case and --filter exclude each other: --case names one case");
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments) {
  Options options;
  for (const auto& argument : arguments) options.argv.push_back(without_folder(argument));
  std::vector<std::string> words = arguments;
  std::string command = "run";
  if (!words.empty() && (words.front() == "run" || words.front() == "list" || words.front() == "show")) {
    command = words.front();
    words.erase(words.begin());
  }

  CLI::App app("stbench");
  app.set_help_flag();
  app.allow_extras();
  add_options(app, options);
  bool help = false, long_help = false, version = false, list_tests = false;
  app.add_flag("-h", help);
  app.add_flag("--help", long_help);
  app.add_flag("--version", version);
  app.add_flag("--dry-run", options.dry_run);
  app.add_flag("--benchmark_list_tests", list_tests);
  std::string report;
  if (command == "show") app.add_option("report", report);
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes its arguments from the back
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}\nstbench --help explains each option", error.what()));
  }

  if (long_help) return PrintCommand{long_help_text()};
  if (help) return PrintCommand{short_help_text()};
  if (version) return PrintCommand{version_text()};
  if (const auto extras = app.remaining(); !extras.empty()) refuse_extra(extras.front());
  check_together(options);
  if (command == "show") {
    if (report.empty())
      throw UsageError("show needs a report: stbench show REPORT (a file written by --json or --csv)");
    return ShowCommand{report, options.color};
  }
  if (options.suites.empty() && !options.case_sentence.empty())
    options.suites = {options.case_sentence.substr(0, options.case_sentence.find(' '))};
  if (command == "list") return ListCommand{options, false};
  if (list_tests) return ListCommand{options, true};
  if (options.suites.empty()) {
    throw UsageError(fmt::format("which suite? use --suite {}\nstbench -h shows how to begin",
                                 fmt::join(suite_names(), ",")));
  }
  return RunCommand{options};
}

}  // namespace stbench
