#include "benchmarks/program/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "benchmarks/program/exit_status.h"
#include "benchmarks/program/own_processes.h"
#include "benchmarks/program/report_sink.h"
#include "benchmarks/program/row_plan.h"
#include "benchmarks/program/screen.h"
#include "benchmarks/suite/suite.h"
#include "harness/errors.h"
#include "reports/compare/baselines.h"
#include "reports/compare/comparable.h"
#include "reports/compare/comparison_files.h"
#include "reports/compare/comparison_table.h"
#include "reports/compare/conclusion.h"
#include "reports/compare/history.h"
#include "reports/compare/history_table.h"
#include "reports/compare/machine_change.h"
#include "reports/compare/side_text.h"
#include "reports/error.h"
#include "reports/files/emulated.h"
#include "reports/files/file.h"
#include "reports/group.h"
#include "reports/standard_output.h"
#include "reports/statistics/statistics.h"
#include "reports/style.h"
#include "speedtorch/cuda.h"
#include "speedtorch/system/unfinished.h"

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
  explicit Outputs(const Options& options)
      : shows_table_(shows_tables(
            options.comparison.markdown == "-" || options.csv == "-" || options.json == "-",
            !(options.comparison.markdown.empty() && options.csv.empty() && options.json.empty()))),
        markdown_(reports::claimed(options.comparison.markdown)),
        csv_(reports::claimed(options.csv)),
        json_(reports::claimed(options.json)) {}

  /// @param about the reports, in sentences
  void write(const reports::Comparison& comparison, const Options& options,
             const reports::Conclusion& conclusion, const std::vector<std::string>& about) {
    const auto& rules = options.comparison.rules;
    const reports::ComparisonView view{rules.effect,    options.comparison.all,       conclusion.word,
                                       conclusion.text, paint_of(conclusion.outcome), about};
    if (markdown_) markdown_->write(comparison_markdown(comparison, view));
    if (csv_) csv_->write(comparison_csv(comparison));
    if (json_) json_->write(comparison_json(comparison, rules, conclusion));
    const auto style = style_for(options.color);
    if (shows_table_)
      reports::write_standard_output(options.quiet ? reports::lines_of(conclusion.text, 0, view.paint, style)
                                                   : comparison_table(comparison, view, style));
  }

 private:
  bool shows_table_;
  std::unique_ptr<reports::ReportFile> markdown_, csv_, json_;
};

/// The reports of a side: of files, and of the files in folders.
Reports read_side(const std::vector<std::string>& words) {
  Reports side;
  for (const auto& word : words) {
    for (const auto& path : reports::report_files(word)) {
      side.push_back(reports::read_report(path));
      reports::require_timed(side.back(), path);
    }
  }
  return side;
}

/// The reasons against the comparison, one line each; empty if there are none.
std::vector<std::string> obstacles(const Reports& base, const Reports& now,
                                   const std::vector<std::string>& allowed) {
  std::vector<std::string> lines;
  for (const auto* side : {&base, &now}) {
    for (const auto& report : *side) {
      for (const auto& [kind, text] : reports::differences(base.front(), report)) {
        if (std::ranges::find(allowed, kind) == allowed.end())
          reports::add_once(lines, fmt::format("another {}: {}", kind, text));
      }
    }
  }
  return lines;
}

std::string calibration_note(const reports::Calibration& calibration) {
  const auto& alarms = calibration.false_alarms;
  return fmt::format(
      "Calibrated on this machine by {} processes ({}); of {} pairs of them as single runs, {} raised an "
      "alarm.",
      calibration.processes, calibration.started_at, alarms.pairs, alarms.alarmed_pairs);
}

/// Commits, dates and machine of a comparison.
std::vector<std::string> about_sides(const Reports& base, const Reports& now) {
  std::vector<std::string> about{reports::side_text("BASE", base), reports::side_text("NEW", now)};
  if (auto machine = machine_text(now.front()); !machine.empty()) about.push_back(std::move(machine));
  if (auto plans = row_plan_difference(base.front(), now.front()); !plans.empty())
    about.push_back(std::move(plans));
  return about;
}

int refuse_comparison(const std::vector<std::string>& obstacles, const Reports& now) {
  fmt::print(stderr, "stbench: not comparable:\n{}\n", fmt::join(obstacles, "\n"));
  fmt::print(stderr, "--across machine,driver,build,table names what may differ\n");
  return exit_status_beside_baseline(not_comparable, now, {});  // a wrong result is said first
}

struct Compared {
  int exit_status = 0;
  bool inconclusive = false;  ///< also beside a missing case, if the machine's state differs
};

Compared compare_sides(const Reports& base, const Reports& now, const Options& options, Outputs& outputs) {
  const auto& comparing = options.comparison;
  if (const auto lines = obstacles(base, now, comparing.across); !lines.empty())
    return {refuse_comparison(lines, now)};
  const reports::Baselines baselines(comparing.baselines);
  const auto calibration = baselines.calibration_for(now.front());
  const auto spreads = calibration ? reports::CalibratedSpreads(*calibration) : reports::CalibratedSpreads();
  auto comparison = reports::compare(base, now, comparing.rules, &spreads);
  if (calibration) {
    comparison.notes.push_back(calibration_note(*calibration));
  } else {
    for (const auto& other : baselines.foreign_calibrations(now.front()))
      comparison.notes.push_back("Refused a calibration of another machine. " + other);
  }
  if (!std::ranges::all_of(base, reports::names_its_machine) ||
      !std::ranges::all_of(now, reports::names_its_machine))
    comparison.notes.emplace_back(
        "A report does not say which machine and build it is of (a CSV does not): taken to be the same.");
  const auto conclusion = reports::conclude(comparison, comparing.rules, comparing.allow_missing);
  outputs.write(comparison, options, conclusion, about_sides(base, now));
  return {conclusion.exit_status,
          conclusion.outcome == reports::Outcome::inconclusive || reports::state_differs(comparison)};
}

/// Before anything is measured. @throws reports::ReportError
void require_place_for(const std::string& folder) {
  const speedtorch::UnfinishedFolder place(folder, 0700);
  if (place.error() != 0)
    throw reports::ReportError(fmt::format("--keep {}: no folder can be made there: {}", folder,
                                           reports::system_reason(place.error())));
}

/// The speed of a virtual machine may change within seconds: on an AMD EPYC two cores took 1.7 times as long
/// for copies while the host ran them near each other (docs/kernels.md).
std::string change_within_pair(const reports::Report& base, const reports::Report& now) {
  constexpr double kOtherSpeed = 1.15;
  const double change = reports::machine_change(base, now).value_or(1);
  const double factor = std::max(change, 1 / change);
  if (factor < kOtherSpeed) return {};
  return fmt::format("LibTorch's own rows took {:.2f} times as long in the process of {}", factor,
                     change > 1 ? "NEW" : "BASE");
}

template <class Work>
int unless_unknown_schema(Work work) {
  try {
    return work();
  } catch (const reports::SchemaError& error) {
    fmt::print(stderr, "stbench: not comparable: {}\n", error.what());
    return not_comparable;
  }
}

/// Saves what was compared with `options.baseline`, or says why not. What shows a slowdown, or may hide one,
/// must not become what later runs are compared with.
void save_compared(const reports::Baselines& baselines, const Reports& now, const Compared& compared,
                   const Options& options) {
  const auto& name = options.save_baseline;
  if (compared.inconclusive) {
    fmt::print(stderr, "stbench: the comparison is inconclusive: baseline {} is as it was\n", name);
  } else if (compared.exit_status != 0 && baselines.are_one(options.baseline, name)) {
    fmt::print(stderr,
               "stbench: the comparison ended with exit status {}: baseline {} is as it was; --save-baseline "
               "without --baseline replaces it\n",
               compared.exit_status, name);
  } else {
    baselines.save(name, now);
  }
}

constexpr int calibrating_processes = 10;

/// Before anything is measured.
void refuse_emulated_gpu(std::string_view what) {
  if (speedtorch::cuda_status().emulated)
    throw UsageError(fmt::format(
        "{}: CUDA's runtime is an emulated GPU, where nothing is timed; a real one would be right", what));
}

}  // namespace

int compare(const std::vector<std::string>& base, const std::vector<std::string>& now,
            const Options& options) {
  Outputs outputs(options);
  return unless_unknown_schema([&] {
    const auto old_side = read_side(base), new_side = read_side(now);
    return compare_sides(old_side, new_side, options, outputs).exit_status;
  });
}

int show_history(const std::vector<std::string>& words, const Options& options) {
  const auto& rules = options.comparison.rules;
  const auto csv = reports::claimed(options.csv);
  const bool shows_table = shows_tables(options.csv == "-", csv != nullptr);
  return unless_unknown_schema([&] {
    auto reports = read_side(words);
    reports::sort_by_start(reports);
    if (const auto lines = obstacles(reports, {}, options.comparison.across); !lines.empty())
      return refuse_comparison(lines, reports);
    const auto history = reports::history(reports, rules);
    const auto conclusion = reports::conclude(history, rules, options.comparison.allow_missing);
    if (csv) {
      const auto table = reports::otava_table(history, reports, case_id_of);
      csv->write(table.csv);
      for (const auto& name : table.left_out)
        fmt::print(stderr, "not in {}, because a report has no value of it: {}\n", options.csv, name);
    }
    const auto style = style_for(options.color);
    auto text = reports::lines_of(conclusion.text, 0, paint_of(conclusion.outcome), style);
    if (!options.quiet) text += reports::history_table(history, reports, style);
    if (shows_table) reports::write_standard_output(text);
    return conclusion.exit_status;
  });
}

int compare_programs(const std::array<std::string, 2>& programs, const std::vector<std::string>& measuring,
                     const Options& options) {
  constexpr int processes_per_side = 5;
  Outputs outputs(options);
  const auto& folder = options.comparison.keep;
  if (!folder.empty()) require_place_for(folder);
  // Sides that cannot be compared need no further processes: compare_sides() says why.
  const auto comparable = [&](const RunsInTurn& runs) {
    for (const auto side : {0U, 1U}) reports::require_timed(runs.reports[side].front(), programs[side]);
    return obstacles(runs.reports[0], runs.reports[1], options.comparison.across).empty();
  };
  return unless_unknown_schema([&] {
    const auto runs = run_in_turn(programs, measuring, options.processes.value_or(processes_per_side),
                                  {comparable, change_within_pair}, options.quiet);
    if (runs.exit_status != 0) return runs.exit_status;
    if (!folder.empty()) {
      reports::Baselines(folder).save("base", runs.reports[0]);
      reports::Baselines(folder).save("new", runs.reports[1]);
    }
    return compare_sides(runs.reports[0], runs.reports[1], options, outputs).exit_status;
  });
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
  const reports::Baselines baselines(options.comparison.baselines);
  if (!options.save_baseline.empty()) {
    refuse_emulated_gpu("--save-baseline");
    reports::Baselines::check_name(options.save_baseline);
  }
  if (!options.baseline.empty()) refuse_emulated_gpu("--baseline");
  Reports base;
  if (!options.baseline.empty()) base = read_side(baselines.files(options.baseline));
  auto own = options;
  own.events.clear(), own.trace.clear();  // the process that measures writes them
  ReportSink sink(own);
  auto comparing = options;
  comparing.csv.clear(), comparing.json.clear();  // of a run these are its own report's
  if (options.baseline.empty())
    comparing.comparison.markdown.clear();  // and so is this, without a comparison
  Outputs outputs(comparing);
  const RowPlanOfBaseline plan_of_base(base);  // the code is compared, not the plan
  const int processes = options.processes.value_or(1);
  const auto runs = run_processes(
      options, processes, processes == 1 && !sink.takes_stdout() && comparing.comparison.markdown != "-");
  if (runs.reports.empty()) return runs.exit_status;
  if (const auto unwritten = sink.write(runs.reports.back()); !unwritten.empty())
    throw reports::ReportError(unwritten);
  const bool saves = !options.save_baseline.empty(), whole = runs.exit_status == 0;
  if (saves && !whole)
    fmt::print(stderr, "stbench: the run ended with exit status {}: baseline {} is as it was\n",
               runs.exit_status, options.save_baseline);
  if (saves && whole && options.baseline.empty()) baselines.save(options.save_baseline, runs.reports);
  if (options.baseline.empty() || is_of_signal(runs.exit_status)) return runs.exit_status;
  const auto compared = compare_sides(base, runs.reports, comparing, outputs);
  if (saves && whole) save_compared(baselines, runs.reports, compared, options);
  return exit_status_beside_baseline(compared.exit_status, runs.reports, options.expectations);
}

}  // namespace stbench
