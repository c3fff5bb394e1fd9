#include "benchmarks/program/comparison_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "benchmarks/program/output_paths.h"
#include "harness/errors.h"
#include "harness/suggest.h"
#include "reports/number.h"

namespace stbench {
namespace {

using Words = std::vector<std::string>;

/// "2%" or "0.02".
double parse_share(const std::string& text, const std::string& option) {
  constexpr double kPercent = 100;
  const bool percent = text.ends_with('%');
  const auto number = reports::real_from(percent ? text.substr(0, text.size() - 1) : text);
  const double effect = number.value_or(-1) / (percent ? kPercent : 1);
  if (!(effect > 0 && effect <= 10)) {
    throw UsageError(fmt::format("{} {}: a share above 0, as in 2% or 0.02, would be right", option, text));
  }
  return effect;
}

/// Of other columns more is better, or they are no quantities.
std::string parse_metric(const std::string& text, const std::string& option) {
  const auto ends = [&](const char* suffix) { return text.ends_with(suffix); };
  if (text == "auto" || text == "time" || ends("_s") || ends("_bytes") || ends("overhead_ratio")) return text;
  throw UsageError(fmt::format(
      "{} {}: auto, time, or a column of which less is better (latency_p99_s, peak_bytes) would be right",
      option, text));
}

std::string something(const std::string& text, const std::string& option) {
  if (text.empty()) throw UsageError(fmt::format("{}: the value is empty", option));
  return text;
}

Words comparison_option_names() {
  Words names{"--allow-missing", "--all", "--csv", "--json", "--color", "--help"};
  for (const auto& [name, reader] : comparison_readers()) names.push_back(name);
  return names;
}

[[noreturn]] void refuse_option(const std::string& word) {
  const auto name = word.substr(0, word.find('='));
  const auto meant = harness::did_you_mean(name, comparison_option_names());
  throw UsageError(fmt::format("compare has no option {}{}\nstbench --help lists all", name,
                               meant.empty() ? "" : "; " + meant));
}

/// The files of both sides: two words, or what stands before and after "--".
void take_sides(const Words& before, const Words* after, CompareCommand& command) {
  for (const auto& word : before) {
    if (word.starts_with("-") && word != "-") refuse_option(word);
  }
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

void add_reader(CLI::App& app, const std::string& name, const ComparisonReader& reader,
                ComparisonOptions& options) {
  const auto read = [&options, reader, name](const CLI::results_t& texts) {
    if (texts.size() > 1)
      throw UsageError(fmt::format("{} is given {} times; once is right", name, texts.size()));
    reader(options, texts.front(), name);
    return true;
  };
  app.add_option(name, CLI::callback_t(read))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace

const std::vector<std::pair<std::string, ComparisonReader>>& comparison_readers() {
  using O = ComparisonOptions&;
  using T = const std::string&;
  static const std::vector<std::pair<std::string, ComparisonReader>> all{
      {"--effect", [](O o, T t, T n) { o.rules.effect = parse_share(t, n); }},
      {"--must-see", [](O o, T t, T n) { o.rules.must_see = parse_share(t, n); }},
      {"--metric", [](O o, T t, T n) { o.rules.metric = parse_metric(t, n); }},
      {"--across",
       [](O o, T t, T n) {
         o.across = harness::parse_names(t, n, Words{"machine", "driver", "build"});
       }},
      {"--markdown", [](O o, T t, T n) { o.markdown = something(t, n); }},
      {"--baselines", [](O o, T t, T n) { o.baselines = something(t, n); }},
  };
  return all;
}

CompareCommand compare_command(Words words) {
  CompareCommand command;
  const auto dashes = std::find(words.begin(), words.end(), "--");
  const bool two_sides = dashes != words.end();
  CLI::App app("stbench compare");
  app.set_help_flag();
  app.allow_extras();
  for (const auto& [name, reader] : comparison_readers()) add_reader(app, name, reader, command.options);
  using O = ComparisonOptions&;
  using T = const std::string&;
  add_reader(
      app, "--csv", [](O o, T t, T n) { o.csv = something(t, n); }, command.options);
  add_reader(
      app, "--json", [](O o, T t, T n) { o.json = something(t, n); }, command.options);
  add_reader(
      app, "--color",
      [](O o, T t, T n) {
        o.color = harness::parse_names(t, n, Words{"auto", "always", "never"}).front();
      },
      command.options);
  app.add_flag("--allow-missing", command.options.allow_missing)->disable_flag_override();
  app.add_flag("--all", command.options.all)->disable_flag_override();
  const auto parse = [&](Words part) {
    std::reverse(part.begin(), part.end());  // CLI11 takes its arguments from the back
    try {
      app.parse(part);
    } catch (const CLI::ParseError& error) {
      throw UsageError(fmt::format("{}\nstbench --help explains each option", error.what()));
    }
    return app.remaining();
  };
  const Words before = parse({words.begin(), dashes});
  // Options may stand on either side of the dashes; what is parsed second must not undo the first.
  const bool allow_missing = command.options.allow_missing, all = command.options.all;
  const Words after = two_sides ? parse({dashes + 1, words.end()}) : Words{};
  command.options.allow_missing |= allow_missing, command.options.all |= all;
  for (const auto& word : after) {
    if (word.starts_with("-") && word != "-") refuse_option(word);
  }
  take_sides(before, two_sides ? &after : nullptr, command);
  require_apart({{"--markdown", command.options.markdown},
                 {"--csv", command.options.csv},
                 {"--json", command.options.json}});
  return command;
}

}  // namespace stbench
