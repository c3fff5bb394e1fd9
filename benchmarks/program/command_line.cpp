#include "benchmarks/program/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "benchmarks/program/compare.h"
#include "benchmarks/program/help.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/program/output_paths.h"
#include "benchmarks/program/plans.h"
#include "benchmarks/program/run.h"
#include "benchmarks/suite/axes.h"
#include "benchmarks/suite/suite.h"
#include "harness/errors.h"
#include "harness/suggest.h"

namespace stbench {
namespace {

using Names = std::vector<std::string>;
using Given = std::vector<const OptionSpec*>;

std::string base_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// The traces of a comma list by their base names.
std::string without_trace_folders(const std::string& list) {
  std::string kept;
  for (std::size_t begin = 0; begin <= list.size();) {
    const auto end = std::min(list.find(',', begin), list.size());
    const auto item = list.substr(begin, end - begin);
    kept +=
        (begin == 0 ? "" : ",") + (item.starts_with("file:") ? "file:" + base_name(item.substr(5)) : item);
    begin = end + 1;
  }
  return kept;
}

/// Paths of a report are base names: no user or folder names. A tensor's name behind a safetensors file may
/// have slashes, too.
std::string without_folder(const std::string& argument) {
  const auto equals = argument.find('=');
  const auto begin = equals == std::string::npos || !argument.starts_with("--") ? 0 : equals + 1;
  const auto option = argument.substr(0, begin), value = argument.substr(begin);
  if (value.starts_with("file:") || value.find(",file:") != std::string::npos)
    return option + without_trace_folders(value);
  const auto slash = value.rfind('/', value.find(".safetensors:"));
  return slash == std::string::npos ? argument : option + value.substr(slash + 1);
}

/// The word that CLI11 could not place: an unknown option, or a surplus word.
[[noreturn]] void refuse_extra(const std::string& extra) {
  if (!extra.starts_with("-")) {
    Names names;
    for (const auto& command : commands()) names.emplace_back(command.name);
    throw UsageError(fmt::format("unexpected word '{}'{}\ncommands are {}; a suite is named with --suite {}",
                                 extra, harness::did_you_mean(extra, names), fmt::join(names, ", "), extra));
  }
  const auto name = extra.substr(0, extra.find('='));
  if (name.starts_with("--benchmark_")) {
    throw UsageError(fmt::format(
        "{} is not supported; of Google Benchmark's flags --benchmark_list_tests, --benchmark_filter, "
        "--benchmark_out, --benchmark_out_format and --benchmark_color are",
        name));
  }
  throw UsageError(fmt::format("unknown option {}{}\nstbench --help lists all", name,
                               harness::did_you_mean(name, option_names())));
}

void add(CLI::App& app, const OptionSpec& spec, Options& options, Given& given) {
  if (spec.value.empty()) {
    app.add_flag_callback(spec.name, [&] { given.push_back(&spec), spec.read(options, "", spec); })
        ->disable_flag_override();
    return;
  }
  const auto read = [&](const CLI::results_t& texts) {
    if (texts.size() > 1 && !spec.has(option_rule::repeatable))
      throw UsageError(fmt::format("{} is given {} times; once is right{}", spec.name, texts.size(),
                                   spec.takes_list() ? ", with a comma list" : ""));
    given.push_back(&spec);
    for (const auto& text : texts) spec.read(options, text, spec);
    return true;
  };
  app.add_option(spec.name, CLI::callback_t(read))
      ->expected(1)
      ->type_name("value")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

bool is_given(const Given& given, std::string_view name) {
  return std::ranges::any_of(given, [&](const OptionSpec* spec) { return spec->name == name; });
}

void check_processes(const Given& given, const Options& options, std::string_view command) {
  const bool several = options.processes.value_or(1) > 1 || command == "calibrate";
  const bool kept = !options.baseline.empty() || !options.save_baseline.empty() || command == "calibrate";
  for (const auto* spec : given) {
    if (several && spec->has(option_rule::one_process))
      throw UsageError(
          fmt::format("{} is of one process, and there are several; --save-baseline keeps the reports of all",
                      spec->name));
    if (spec->has(option_rule::compare_only))
      throw UsageError(fmt::format("{} goes with compare alone, and not with {}", spec->name, command));
    if (spec->has(option_rule::compares) && options.baseline.empty())
      throw UsageError(fmt::format("{} goes with compare, or with --baseline NAME", spec->name));
    if (spec->name == "--baselines" && !kept)
      throw UsageError("--baselines goes with compare, calibrate, --baseline or --save-baseline");
  }
  if (several && options.baseline.empty() && is_given(given, "--markdown"))
    throw UsageError("--markdown is of one process, or of a comparison: it goes with --baseline");
  if (options.samples && options.time_budget_s > 0)
    throw UsageError(
        "--samples and --time-budget exclude each other: one fixes the rounds, the other cuts them");
  if (command == "calibrate" && !options.baseline.empty())
    throw UsageError("calibrate takes no --baseline: it compares its own processes with each other");
  if (command == "calibrate" && options.processes.value_or(3) < 3)
    throw UsageError("--processes: a calibration takes 3 or more, better 10");
  if (is_given(given, "--benchmark_out_format") && options.benchmark_out.empty())
    throw UsageError("--benchmark_out_format goes with --benchmark_out");
}

template <class Predicate = bool (*)(const Suite&)>
Names suites_with(Predicate has = [](const Suite&) { return true; }) {
  Names names;
  for (const auto& suite : suites()) {
    if (has(suite)) names.push_back(suite.name);
  }
  return names;
}

/// @throws UsageError if none of the suites asked for takes the option
void check_taken(const OptionSpec& spec, const Names& asked) {
  const auto has = [&](const Suite& suite) { return takes(suite, spec.name); };
  if (std::ranges::any_of(asked, has, suite_named)) return;
  std::string instead;
  for (const auto& [option, text] : suite_named(asked.front()).instead) {
    if (option == spec.name) instead = "\n" + text;
  }
  throw UsageError(fmt::format("{} has no meaning for --suite {}; it goes with {}{}", spec.name,
                               fmt::join(asked, ","), fmt::join(suites_with(has), ", "), instead));
}

/// @throws UsageError if none of the suites asked for has the method
void check_methods(const char* option, const Names& names, bool peers, const Names& asked) {
  for (const auto& name : names) {
    const auto has = [&](const Suite& suite) {
      return std::ranges::any_of(suite.methods(), [&](const MethodInfo& method) {
        return method.name == name && (method.peer || !peers);
      });
    };
    if (!std::ranges::any_of(asked, has, suite_named))
      throw UsageError(fmt::format("{} {} is no {} of --suite {}; it goes with {}", option, name,
                                   peers ? "peer" : "method", fmt::join(asked, ","),
                                   fmt::join(suites_with(has), ", ")));
  }
}

void check_preset(const Options& options) {
  const auto has = [&](const Suite& suite) {
    return std::ranges::find(suite.presets, options.preset, &PresetInfo::name) != suite.presets.end();
  };
  for (const auto& name : options.suites) {
    if (has(suite_named(name))) continue;
    Names known;
    for (const auto& preset : suite_named(name).presets) known.push_back(preset.name);
    throw UsageError(fmt::format("--suite {} has no preset {}; use {}\n--suite {} has it", name,
                                 options.preset, fmt::join(known, ", "), fmt::join(suites_with(has), ",")));
  }
}

/// Refuses options that none of the chosen suites takes; they would be ignored.
void check_suites_take(const Given& given, const Options& options) {
  for (const auto* spec : given) {
    if (spec->has(option_rule::of_suites)) check_taken(*spec, options.suites);
  }
  check_methods("--method", options.methods, false, options.suites);
  if (std::ranges::none_of(options.suites, &Suite::waives_strange_peers, suite_named))
    check_methods("--peers", options.peers, true, options.suites);
  check_preset(options);
}

void check_together(const Given& given, const Options& options) {
  require_apart({{"--csv", options.csv},
                 {"--json", options.json},
                 {"--benchmark_out", options.benchmark_out},
                 {"--events", options.events},
                 {"--trace", options.trace},
                 {"--markdown", options.comparison.markdown}});
  for (const auto* spec : given) {
    if (!options.case_id.empty() && spec->has(option_rule::chooses_cases))
      throw UsageError(fmt::format(
          "--case and {} exclude each other: --case names one case with all its axes", spec->name));
  }
}

/// The suite of a case is its first word.
std::string suite_of_case(const std::string& case_id) {
  const auto name = case_id.substr(0, case_id.find_first_of(" \t\n"));
  const auto known = suites_with();
  if (!contains(known, name)) throw UsageError(harness::unknown_name(name, "--case: the suite", known));
  return name;
}

/// The suites that the options are about, if --suite does not say.
void complete_suites(Options& options, bool list_tests) {
  if (!options.suites.empty()) return;
  if (!options.case_id.empty()) {
    options.suites = {suite_of_case(options.case_id)};
  } else if (!options.workloads.empty()) {
    options.suites = {"transfer"};
  } else if (list_tests) {
    options.suites = suites_with();
  } else {
    throw UsageError(fmt::format("which suite? use --suite {}\nstbench -h shows how to begin",
                                 fmt::join(suites_with(), ",")));
  }
}

/// The command that the words begin with, which is taken off them. One with a command line of its own is here
/// if help was asked for.
std::string_view taken_command(Names& words) {
  const auto* const command = words.empty() ? nullptr : command_named(words.front());
  if (command == nullptr) return "run";
  words.erase(words.begin());
  return command->parse == nullptr ? command->name : "run";
}

int measure(const Options& options) {
  const bool alone = options.baseline.empty() && options.save_baseline.empty() && !options.processes;
  for (const auto& name : options.suites) {
    if (!alone && suite_named(name).launched_rank(options))
      throw UsageError(
          "--processes and baselines go with --ranks: ranks of a launcher are one run; start it several "
          "times");
  }
  return alone || options.dry_run ? run(options) : run_with_baseline(options);
}

/// The options of a run, list or calibrate.
Command common_command(std::string_view command, Options options, const Given& given) {
  if (is_given(given, "--help")) return {printing(long_help_text())};
  if (is_given(given, "-h")) return {printing(short_help_text())};
  if (is_given(given, "--version")) return {printing(version_text())};
  if (command == "list" && !given.empty())
    throw UsageError(
        fmt::format("list takes no {}: it would change nothing; it goes with run", given.front()->name));
  if (command == "list") return {list_suites};
  const bool list_tests = is_given(given, "--benchmark_list_tests");
  check_processes(given, options, command);
  check_together(given, options);
  complete_suites(options, list_tests);
  check_suites_take(given, options);
  if (list_tests) return {[options] { return list_cases(options); }};
  if (command == "calibrate") return {[options] { return calibrate(options); }, true, options};
  return {[options] { return measure(options); }, !options.dry_run, options};
}

}  // namespace

std::vector<const OptionSpec*> parse_options(Names& words, Options& options, unsigned rule) {
  CLI::App app("stbench");
  Given given;
  app.set_help_flag();
  app.allow_extras();
  for (const auto& spec : option_table()) {
    if (rule == 0 || spec.has(rule)) add(app, spec, options, given);
  }
  try {
    std::ranges::reverse(words);  // CLI11 takes its arguments from the back
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}\nstbench --help explains each option", error.what()));
  }
  words = app.remaining();
  return given;
}

Command parse_command_line(const std::vector<std::string>& arguments) {
  const auto asks_for_help = [](const std::string& word) { return word == "-h" || word == "--help"; };
  if (const auto* own = arguments.empty() ? nullptr : command_named(arguments.front());
      own != nullptr && own->parse != nullptr &&
      std::none_of(arguments.begin(), std::ranges::find(arguments, "--"), asks_for_help))
    return {own->parse({arguments.begin() + 1, arguments.end()})};
  Options options;
  for (const auto& argument : arguments) options.argv.push_back(without_folder(argument));
  auto words = arguments;
  const auto command = taken_command(words);
  options.measuring_words = words;
  const auto given = parse_options(words, options);
  const bool printed = is_given(given, "--help") || is_given(given, "-h") || is_given(given, "--version");
  if (!printed && !words.empty()) refuse_extra(words.front());
  return common_command(command, std::move(options), given);
}

}  // namespace stbench
