#include "benchmarks/program/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "benchmarks/program/exit_status.h"
#include "benchmarks/program/own_command.h"
#include "benchmarks/program/own_processes.h"
#include "benchmarks/program/report_sink.h"
#include "benchmarks/program/row_plan.h"
#include "benchmarks/program/screen.h"
#include "harness/errors.h"
#include "reports/compare/baselines.h"
#include "reports/compare/comparable.h"
#include "reports/compare/comparison_files.h"
#include "reports/compare/comparison_table.h"
#include "reports/compare/conclusion.h"
#include "reports/error.h"
#include "reports/files/emulated.h"
#include "reports/files/file.h"
#include "reports/standard_output.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

using reports::Report;
using Reports = std::vector<Report>;

constexpr int not_comparable = 3;

reports::Paint paint_of(reports::Outcome outcome) {
  if (outcome == reports::Outcome::no_slowdown) return reports::Paint::good;
  return outcome == reports::Outcome::inconclusive ? reports::Paint::doubtful : reports::Paint::bad;
}

/// The files that a comparison writes, claimed before anything is read or measured.
class Outputs {
 public:
  explicit Outputs(const ComparisonOptions& options)
      : shows_table_(
            shows_tables(options.markdown == "-" || options.csv == "-" || options.json == "-",
                         !(options.markdown.empty() && options.csv.empty() && options.json.empty()))),
        markdown_(claim(options.markdown)),
        csv_(claim(options.csv)),
        json_(claim(options.json)) {}

  void write(const reports::Comparison& comparison, const ComparisonOptions& options,
             const reports::Conclusion& conclusion) {
    const reports::ComparisonView view{options.rules.effect, options.all, conclusion.text,
                                       paint_of(conclusion.outcome)};
    if (markdown_) markdown_->write(comparison_markdown(comparison, view));
    if (csv_) csv_->write(comparison_csv(comparison));
    if (json_) json_->write(comparison_json(comparison, options.rules, conclusion));
    if (shows_table_)
      reports::write_standard_output(comparison_table(comparison, view, style_for(options.color)));
  }

 private:
  static std::unique_ptr<reports::ReportFile> claim(const std::string& path) {
    return path.empty() ? nullptr : std::make_unique<reports::ReportFile>(path);
  }

  bool shows_table_;
  std::unique_ptr<reports::ReportFile> markdown_, csv_, json_;
};

/// A side's reports, with the paths they came from for messages.
struct Side {
  std::vector<std::string> paths;
  Reports reports;
};

Side read_side(const std::vector<std::string>& words) {
  Side side;
  for (const auto& word : words) {
    for (const auto& path : reports::report_files(word)) {
      side.reports.push_back(reports::read_report(path));
      reports::require_timed(side.reports.back(), path);
      side.paths.push_back(path);
    }
  }
  return side;
}

/// What forbids the comparison, one line each; empty where nothing does.
std::vector<std::string> obstacles(const Side& base, const Side& now,
                                   const std::vector<std::string>& allowed) {
  std::vector<std::string> lines;
  const auto add = [&](const Report& report) {
    for (const auto& [kind, text] : reports::differences(base.reports.front(), report)) {
      const auto line = fmt::format("another {}: {}", kind, text);
      const bool is_allowed = std::find(allowed.begin(), allowed.end(), kind) != allowed.end();
      if (!is_allowed && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    }
  };
  for (const auto& report : base.reports) add(report);
  for (const auto& report : now.reports) add(report);
  return lines;
}

std::string calibration_note(const reports::Calibration& calibration) {
  const auto& alarms = calibration.false_alarms;
  return fmt::format(
      "Calibrated on this machine by {} processes ({}); of {} pairs of them as single runs, {} raised an "
      "alarm.",
      calibration.processes, calibration.started_at, alarms.pairs, alarms.alarmed_pairs);
}

void note_strangers(const Side& base, const Side& now, std::vector<std::string>& notes) {
  const auto silent = [](const Report& report) { return !reports::names_its_machine(report); };
  if (std::any_of(base.reports.begin(), base.reports.end(), silent) ||
      std::any_of(now.reports.begin(), now.reports.end(), silent)) {
    notes.emplace_back(
        "A report does not say which machine and build it is of (a CSV does not): taken to be the same.");
  }
}

int compare_sides(const Side& base, const Side& now, const ComparisonOptions& options, Outputs& outputs) {
  if (const auto lines = obstacles(base, now, options.across); !lines.empty()) {
    fmt::print(stderr, "stbench: not comparable:\n{}\n", fmt::join(lines, "\n"));
    fmt::print(stderr, "--across machine,driver,build names what may differ\n");
    return not_comparable;
  }
  const auto calibration = reports::Baselines(options.baselines).calibration_for(now.reports.front());
  const auto spreads = calibration ? reports::CalibratedSpreads(*calibration) : reports::CalibratedSpreads();
  auto comparison = reports::compare(base.reports, now.reports, options.rules, &spreads);
  if (calibration) comparison.notes.push_back(calibration_note(*calibration));
  note_strangers(base, now, comparison.notes);
  const auto conclusion = reports::conclude(comparison, options.rules, options.allow_missing);
  outputs.write(comparison, options, conclusion);
  return conclusion.exit_status;
}

constexpr int calibrating_processes = 10;

/// Before anything is measured.
void refuse_emulated_gpu(std::string_view what) {
  if (speedtorch::cuda_status().emulated)
    throw UsageError(fmt::format(
        "{}: CUDA's runtime is an emulated GPU, where nothing is timed; a real one would be right", what));
}

}  // namespace

int compare(const CompareCommand& command) {
  Outputs outputs(command.options);
  try {
    const auto base = read_side(command.base), now = read_side(command.now);
    return compare_sides(base, now, command.options, outputs);
  } catch (const reports::SchemaError& error) {
    fmt::print(stderr, "stbench: not comparable: {}\n", error.what());
    return not_comparable;
  }
}

Execute parse_compare(const std::vector<std::string>& words) {
  return [command = compare_command(words)] { return compare(command); };
}

int calibrate(const Options& options) {
  refuse_emulated_gpu("calibrate");
  const reports::Baselines baselines(options.comparison.baselines);
  const auto runs = run_processes(options, options.processes.value_or(calibrating_processes), false);
  if (runs.exit_status != 0) {
    fmt::print(stderr, "stbench: a process ended with exit status {}: nothing was calibrated\n",
               runs.exit_status);
    return runs.exit_status;
  }
  const auto calibration = reports::calibrate(runs.reports);
  const auto path = baselines.save(calibration);
  if (!options.save_baseline.empty()) baselines.save(options.save_baseline, runs.reports);
  const auto& alarms = calibration.false_alarms;
  std::vector<double> spreads;
  for (const auto& row : calibration.cases) {
    const auto& spread = row.ceiling ? row.ceiling : row.time;
    if (spread) spreads.push_back(*spread);
  }
  if (!shows_tables(false, true)) return 0;
  reports::write_standard_output(
      fmt::format("{} processes, {} rows; the spread of the middle row is {:.1f}%, of the widest {:.1f}%\n"
                  "as single runs, {} of {} pairs of them ({} of {} rows) would have raised a false alarm\n"
                  "written to {}; stbench compare on this machine uses it\n",
                  calibration.processes, calibration.cases.size(), 100 * reports::median(spreads),
                  100 * *std::max_element(spreads.begin(), spreads.end()), alarms.alarmed_pairs, alarms.pairs,
                  alarms.alarmed_rows, alarms.rows, path));
  return 0;
}

int run_with_baseline(const Options& options) {
  const auto& comparing = options.comparison;
  const reports::Baselines baselines(comparing.baselines);
  if (!options.save_baseline.empty()) {
    refuse_emulated_gpu("--save-baseline");
    reports::Baselines::check_name(options.save_baseline);
  }
  if (!options.baseline.empty()) refuse_emulated_gpu("--baseline");
  Side base;
  if (!options.baseline.empty()) base = read_side(baselines.files(options.baseline));
  auto own = options;
  own.events.clear(), own.trace.clear();  // the process that measures writes them
  ReportSink sink(own);
  auto quiet = comparing;
  quiet.csv.clear(), quiet.json.clear();  // of a run these are its own report's
  quiet.color = options.color;
  Outputs outputs(quiet);
  const RowPlanOfBaseline plan_of_base(base.reports);  // the code is compared, not the plan
  const int processes = options.processes.value_or(1);
  auto runs =
      run_processes(options, processes, processes == 1 && !sink.takes_stdout() && comparing.markdown != "-");
  if (runs.reports.empty()) return runs.exit_status;
  if (const auto unwritten = sink.write(runs.reports.back()); !unwritten.empty())
    throw reports::ReportError(unwritten);
  const bool whole = runs.exit_status == 0;
  if (!options.save_baseline.empty() && whole) baselines.save(options.save_baseline, runs.reports);
  if (!options.save_baseline.empty() && !whole)
    fmt::print(stderr, "stbench: the run ended with exit status {}: baseline {} is as it was\n",
               runs.exit_status, options.save_baseline);
  if (options.baseline.empty() || is_of_signal(runs.exit_status)) return runs.exit_status;
  Side now;
  now.reports = std::move(runs.reports);
  const int status = compare_sides(base, now, quiet, outputs);
  return exit_status_beside_baseline(status, now.reports, options.expectations);
}

}  // namespace stbench
