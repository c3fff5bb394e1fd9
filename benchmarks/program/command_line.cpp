#include "benchmarks/program/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/program/help.h"
#include "benchmarks/program/option_table.h"
#include "benchmarks/program/output_paths.h"
#include "benchmarks/steps/net.h"
#include "benchmarks/steps/reference_step.h"
#include "benchmarks/steps/step_suite.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/workload.h"
#include "harness/errors.h"
#include "harness/numbers.h"
#include "harness/pattern.h"
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
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const auto& allocator : allocators()) add(allocator.name);
  for (const auto& name : step_method_names()) add(name);
  return names;
}

/// Of the transfer suite, and of those that step.
Names all_directions() {
  Names names = transfer_axes::directions();
  names.emplace_back("step");
  return names;
}

Names all_peer_names() {
  Names names = peer_names();
  for (auto& name : step_peer_names()) names.push_back(std::move(name));
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

/// Norms of a comma list, 0 among them. @throws UsageError
std::vector<double> parse_norms(const std::string& text, const std::string& option) {
  std::vector<double> norms;
  for (const auto item : harness::split_list(text, option)) {
    double norm = -1;
    const auto [rest, error] = std::from_chars(item.data(), item.data() + item.size(), norm);
    if (error != std::errc{} || rest != item.data() + item.size() || !(norm >= 0) || norm > 1e30)
      throw UsageError(fmt::format("{} {}: a norm is needed, or 0 for no clipping", option, item));
    norms.push_back(norm);
  }
  return norms;
}

/// A regular expression that compiles. @throws UsageError
std::string parse_filter(const std::string& text, const std::string& option) {
  const harness::Pattern compiled(text, option);
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

/// A path or sentence: what stands there, but something.
std::string required(const std::string& text, const std::string& option) {
  if (text.empty()) throw UsageError(fmt::format("{}: the value is empty", option));
  return text;
}

using Reader = std::function<void(Options&, const std::string& text, const std::string& option)>;

/// What reads each option's text. The texts of the help are in help.cpp; a test holds the two against each
/// other.
const std::vector<std::pair<std::string, Reader>>& readers() {
  using O = Options&;
  using T = const std::string&;
  static const std::vector<std::pair<std::string, Reader>> all{
      {"--suite", [](O o, T t, T n) { o.suites = names(t, n, suite_names()); }},
      {"--direction", [](O o, T t, T n) { o.directions = names(t, n, all_directions()); }},
      {"--placement", [](O o, T t, T n) { o.placements = names(t, n, transfer_axes::placements()); }},
      {"--method", [](O o, T t, T n) { o.methods = names(t, n, method_names()); }},
      {"--peers", [](O o, T t, T n) { o.peers = names(t, n, all_peer_names()); }},
      {"--optimizer", [](O o, T t, T n) { o.optimizers = names(t, n, optimizer_names()); }},
      {"--shape", [](O o, T t, T n) { o.shapes = split(t, n); }},
      {"--model", [](O o, T t, T n) { o.models = names(t, n, net_names()); }},
      {"--micro-batch",
       [](O o, T t, T n) {
         o.micro_batches = names(t, n, {"auto", "fixed"});
       }},
      {"--clip", [](O o, T t, T n) { o.clips = parse_norms(t, n); }},
      {"--text", [](O o, T t, T n) { o.text = required(t, n); }},
      {"--negatives", [](O o, T t, T n) { o.negatives = harness::parse_counts(t, n); }},
      {"--device", [](O o, T t, T n) { o.devices = split(t, n); }},
      {"--dtype", [](O o, T t, T n) { o.dtypes = names(t, n, transfer_axes::dtypes()); }},
      {"--index-dtype", [](O o, T t, T n) { o.index_dtypes = names(t, n, transfer_axes::index_dtypes()); }},
      {"--distribution", [](O o, T t, T n) { o.distributions = split(t, n); }},
      {"--rows", [](O o, T t, T n) { o.rows = harness::parse_counts(t, n); }},
      {"--dim", [](O o, T t, T n) { o.dims = harness::parse_counts(t, n); }},
      {"--row-bytes", [](O o, T t, T n) { o.row_bytes = harness::parse_counts(t, n); }},
      {"--batch", [](O o, T t, T n) { o.batches = harness::parse_counts(t, n); }},
      {"--callers", [](O o, T t, T n) { o.callers = harness::parse_counts(t, n); }},
      {"--cores", [](O o, T t, T n) { o.cores = harness::parse_counts(t, n); }},
      {"--cache", [](O o, T t, T n) { o.caches = names(t, n, transfer_axes::caches()); }},
      {"--isa", [](O o, T t, T n) { o.isas = names(t, n, transfer_axes::isas()); }},
      {"--preset", [](O o, T t, T n) { o.preset = one_of(t, n, preset_names()); }},
      {"--workload", [](O o, T t, T n) { o.workloads = names(t, n, workload_names()); }},
      {"--filter", [](O o, T t, T n) { o.filter = parse_filter(t, n); }},
      {"--case", [](O o, T t, T n) { o.case_id = required(t, n); }},
      {"--samples", [](O o, T t, T n) { o.samples = parse_small(t, n, 1, 1'000'000); }},
      {"--warmup", [](O o, T t, T n) { o.warmup = parse_small(t, n, 1, 1'000'000); }},
      {"--timeout", [](O o, T t, T n) { o.timeout_s = harness::parse_seconds(t, n); }},
      {"--verify",
       [](O o, T t, T n) {
         o.verify_every = one_of(t, n, {"first", "every"}) == "every";
       }},
      {"--seed", [](O o, T t, T) { o.seed = parse_seed(t); }},
      {"--csv", [](O o, T t, T n) { o.csv = required(t, n); }},
      {"--json", [](O o, T t, T n) { o.json = required(t, n); }},
      {"--baseline", [](O o, T t, T n) { o.baseline = required(t, n); }},
      {"--save-baseline", [](O o, T t, T n) { o.save_baseline = required(t, n); }},
      {"--processes", [](O o, T t, T n) { o.processes = parse_small(t, n, 1, 1000); }},
      {"--events", [](O o, T t, T n) { o.events = required(t, n); }},
      {"--trace", [](O o, T t, T n) { o.trace = required(t, n); }},
      {"--expect", [](O o, T t, T n) { o.expectations.push_back(parse_expectation(t, n)); }},
      {"--color",
       [](O o, T t, T n) {
         o.color = one_of(t, n, {"auto", "always", "never"});
       }},
      {"--benchmark_filter", [](O o, T t, T n) { o.filter = parse_filter(t, n); }},
      {"--benchmark_out", [](O o, T t, T n) { o.benchmark_out = required(t, n); }},
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
  Names known{"-h", "--help", "--version", "--dry-run", "--benchmark_list_tests", "--allow-missing", "--all"};
  for (const auto& [name, reader] : readers()) known.push_back(name);
  for (const auto& [name, reader] : comparison_readers()) known.push_back(name);
  return known;
}

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

/// Paths of a report are base names: no user or folder names.
std::string without_folder(const std::string& argument) {
  const auto equals = argument.find('=');
  const auto begin = equals == std::string::npos || !argument.starts_with("--") ? 0 : equals + 1;
  const auto option = argument.substr(0, begin), value = argument.substr(begin);
  if (value.starts_with("file:") || value.find(",file:") != std::string::npos)
    return option + without_trace_folders(value);
  return value.find('/') == std::string::npos ? argument : option + base_name(value);
}

/// What CLI11 could not place: an option that is not known, or a word that should not be there.
[[noreturn]] void refuse_extra(const std::string& extra) {
  if (!extra.starts_with("-")) {
    Names commands;
    for (const auto& command : common_commands()) commands.emplace_back(command.name);
    for (const auto& own : own_commands()) commands.emplace_back(own.name);
    const auto meant = harness::did_you_mean(extra, commands);
    throw UsageError(fmt::format("unexpected word '{}'{}\ncommands are {}; a suite is named with --suite {}",
                                 extra, meant.empty() ? "" : "; " + meant, fmt::join(commands, ", "), extra));
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

template <class Target, class Readers>
void add_options(CLI::App& app, Target& target, const Readers& all) {
  for (const auto& [name, reader] : all) {
    const auto read = [&target, &reader = reader, option = name](const CLI::results_t& texts) {
      if (option == "--expect") {  // each is a demand of its own
        for (const auto& text : texts) reader(target, text, option);
        return true;
      }
      if (texts.size() > 1)
        throw UsageError(
            fmt::format("{} is given {} times; once is right, with a comma list", option, texts.size()));
      reader(target, texts.front(), option);
      return true;
    };
    app.add_option(name, CLI::callback_t(read))
        ->expected(1)
        ->type_name("value")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

/// What only a comparison looks at, or only several processes, would be ignored without them.
void check_baseline_options(const CLI::App& app, const Options& options, const std::string& command) {
  const bool several = options.processes.value_or(1) > 1 || command == "calibrate";
  for (const char* const name : {"--csv", "--json", "--benchmark_out", "--events", "--trace"}) {
    if (several && app.count(name) > 0)
      throw UsageError(fmt::format(
          "{} is of one process, and there are several; --save-baseline keeps the reports of all", name));
  }
  for (const char* const name :
       {"--effect", "--metric", "--across", "--markdown", "--allow-missing", "--all"}) {
    if (app.count(name) > 0 && options.baseline.empty())
      throw UsageError(fmt::format("{} goes with compare, or with --baseline NAME", name));
  }
  if (command == "calibrate" && !options.baseline.empty())
    throw UsageError("calibrate takes no --baseline: it compares its own processes with each other");
  if (command == "calibrate" && options.processes.value_or(3) < 3)
    throw UsageError("--processes: a calibration takes 3 or more, better 10");
}

/// A case has a value for each axis; another one beside it would be ignored.
void check_case_alone(const Options& options) {
  const std::pair<const char*, bool> given[] = {{"--filter", !options.filter.empty()},
                                                {"--direction", !options.directions.empty()},
                                                {"--placement", !options.placements.empty()},
                                                {"--method", !options.methods.empty()},
                                                {"--workload", !options.workloads.empty()},
                                                {"--peers", !options.peers.empty()},
                                                {"--optimizer", !options.optimizers.empty()},
                                                {"--negatives", !options.negatives.empty()},
                                                {"--shape", !options.shapes.empty()},
                                                {"--clip", !options.clips.empty()},
                                                {"--model", !options.models.empty()},
                                                {"--micro-batch", !options.micro_batches.empty()},
                                                {"--device", !options.devices.empty()},
                                                {"--dtype", !options.dtypes.empty()},
                                                {"--index-dtype", !options.index_dtypes.empty()},
                                                {"--distribution", !options.distributions.empty()},
                                                {"--rows", !options.rows.empty()},
                                                {"--dim", !options.dims.empty()},
                                                {"--row-bytes", !options.row_bytes.empty()},
                                                {"--batch", !options.batches.empty()},
                                                {"--cores", !options.cores.empty()},
                                                {"--cache", !options.caches.empty()},
                                                {"--callers", !options.callers.empty()},
                                                {"--isa", !options.isas.empty()}};
  for (const auto& [name, present] : given) {
    if (present)
      throw UsageError(
          fmt::format("--case and {} exclude each other: --case names one case with all its axes", name));
  }
}

/// What only some suites know would be ignored by the others.
void check_suites_know(const Options& options) {
  using Suites = std::vector<std::string>;
  const std::tuple<const char*, bool, Suites> given[] = {
      {"--optimizer", !options.optimizers.empty(), {"optimizer", "embedding", "contiguous"}},
      {"--text", !options.text.empty(), {"embedding"}},
      {"--negatives", !options.negatives.empty(), {"embedding"}},
      {"--shape", !options.shapes.empty(), {"contiguous"}},
      {"--clip", !options.clips.empty(), {"contiguous"}},
      {"--model", !options.models.empty(), {"infinitybatch"}},
      {"--micro-batch", !options.micro_batches.empty(), {"infinitybatch"}}};
  for (const auto& [name, present, suites] : given) {
    const auto& known = suites;
    const bool any = std::ranges::any_of(options.suites, [&](const std::string& suite) {
      return std::ranges::find(known, suite) != known.end();
    });
    if (present && !any && !options.suites.empty())
      throw UsageError(fmt::format("{} has no meaning for --suite {}; it goes with {}", name,
                                   fmt::join(options.suites, ","), fmt::join(known, ", ")));
  }
}

void check_together(const Options& options) {
  require_apart({{"--csv", options.csv},
                 {"--json", options.json},
                 {"--benchmark_out", options.benchmark_out},
                 {"--events", options.events},
                 {"--trace", options.trace},
                 {"--markdown", options.comparison.markdown}});
  check_suites_know(options);
  if (!options.case_id.empty()) check_case_alone(options);
}

/// list measures nothing: an option that would be ignored is refused.
void refuse_idle_options(const CLI::App& app, const std::string& command) {
  for (const auto* option : app.get_options()) {
    const auto name = option->get_name();
    if (option->count() == 0) continue;
    throw UsageError(fmt::format("{} takes no {}: it would change nothing; it goes with run", command, name));
  }
}

bool is_common_command(const std::string& word) {
  return std::ranges::find(common_commands(), word, &CommonCommand::name) != common_commands().end();
}

/// The suite of a case is its first word.
std::string suite_of_case(const std::string& sentence) {
  return one_of(sentence.substr(0, sentence.find_first_of(" \t\n")), "--case: the suite", suite_names());
}

}  // namespace

std::vector<std::string> option_values(const std::string& option) {
  using Values = Names (*)();
  static const std::map<std::string, Values> of_options{
      {"--suite", suite_names},
      {"--direction", all_directions},
      {"--placement", [] { return transfer_axes::placements(); }},
      {"--method", method_names},
      {"--peers", all_peer_names},
      {"--optimizer", optimizer_names},
      {"--model", net_names},
      {"--micro-batch",
       [] {
         return Names{"auto", "fixed"};
       }},
      {"--dtype", [] { return transfer_axes::dtypes(); }},
      {"--index-dtype", [] { return transfer_axes::index_dtypes(); }},
      {"--cache", [] { return transfer_axes::caches(); }},
      {"--isa", [] { return Names(transfer_axes::isas()); }},
      {"--preset", [] { return preset_names(); }},
      {"--workload", [] { return workload_names(); }},
      {"--across",
       [] {
         return Names{"machine", "driver", "build"};
       }},
      {"--verify",
       [] {
         return Names{"first", "every"};
       }},
      {"--color",
       [] {
         return Names{"auto", "always", "never"};
       }},
      {"--benchmark_out_format",
       [] {
         return Names{"json", "csv", "console"};
       }},
      {"--benchmark_color",
       [] {
         return Names{"auto", "true", "false"};
       }},
  };
  const auto found = of_options.find(option);
  return found == of_options.end() ? Names{} : found->second();
}

Command parse_command_line(const std::vector<std::string>& arguments) {
  const auto asks_for_help = [](const std::string& word) { return word == "-h" || word == "--help"; };
  if (const auto* own = arguments.empty() ? nullptr : own_command(arguments.front());
      own != nullptr && std::ranges::none_of(arguments, asks_for_help))
    return own->parse({arguments.begin() + 1, arguments.end()});
  Options options;
  for (const auto& argument : arguments) options.argv.push_back(without_folder(argument));
  std::vector<std::string> words = arguments;
  std::string command = "run";
  if (!words.empty() && own_command(words.front()) != nullptr)
    words.erase(words.begin());  // help was asked for
  if (!words.empty() && is_common_command(words.front())) {
    command = words.front();
    words.erase(words.begin());
  }
  options.measuring_words = words;

  CLI::App app("stbench");
  app.set_help_flag();
  app.allow_extras();
  add_options(app, options, readers());
  add_options(app, options.comparison, comparison_readers());
  app.add_flag("--allow-missing", options.comparison.allow_missing)->disable_flag_override();
  app.add_flag("--all", options.comparison.all)->disable_flag_override();
  bool help = false, long_help = false, version = false, list_tests = false;
  app.add_flag("-h", help)->disable_flag_override();
  app.add_flag("--help", long_help)->disable_flag_override();
  app.add_flag("--version", version)->disable_flag_override();
  app.add_flag("--dry-run", options.dry_run)->disable_flag_override();
  app.add_flag("--benchmark_list_tests", list_tests)->disable_flag_override();
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
  if (command == "list") {
    refuse_idle_options(app, command);
  } else {
    check_baseline_options(app, options, command);
  }
  check_together(options);
  if (options.suites.empty() && !options.case_id.empty()) options.suites = {suite_of_case(options.case_id)};
  if (options.suites.empty() && !options.workloads.empty()) options.suites = {"transfer"};
  if (command == "list") return ListCommand{options, false};
  if (list_tests) return ListCommand{options, true};
  if (options.suites.empty()) {
    throw UsageError(fmt::format("which suite? use --suite {}\nstbench -h shows how to begin",
                                 fmt::join(suite_names(), ",")));
  }
  if (command == "calibrate") return CalibrateCommand{options};
  return RunCommand{options};
}

}  // namespace stbench
