#include "reports/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "reports/compare/judge.h"
#include "reports/error.h"
#include "reports/files/case_join.h"
#include "reports/statistics/memory.h"
#include "reports/statistics/probability.h"

namespace stbench::reports {
namespace {

double mean_of(const std::vector<Measured>& side) {
  double sum = 0;
  for (const Measured& measured : side) sum += measured.value;
  return sum / static_cast<double>(side.size());
}

// ---- what has no numbers on a side

const Record* first_with(const std::vector<const Record*>& side, Status status) {
  const auto found = std::ranges::find_if(
      side, [&](const Record* record) { return record != nullptr && record->status == status; });
  return found == side.end() ? nullptr : *found;
}

bool any_numbers(const std::vector<const Record*>& side) {
  return std::ranges::any_of(
      side, [](const Record* record) { return record != nullptr && has_numbers(record->status); });
}

/// Verdicts that no number is needed for; nothing if there is one on both sides, or on none.
std::optional<std::pair<Verdict, std::string>> without_numbers(const JoinedCase& joined) {
  if (const Record* wrong = first_with(joined.now, Status::wrong)) {
    const bool before = first_with(joined.base, Status::wrong) != nullptr;
    return std::pair(Verdict::now_wrong, before ? "was wrong before; " + wrong->reason : wrong->reason);
  }
  if (const Record* failed = first_with(joined.now, Status::failed)) {
    return std::pair(Verdict::missing, "failed: " + failed->reason);
  }
  const bool base = any_numbers(joined.base), now = any_numbers(joined.now);
  if (base == now) return std::nullopt;
  if (now) return std::pair(Verdict::added, std::string());
  const Record* const waived = first_with(joined.now, Status::waived);
  return std::pair(Verdict::missing,
                   waived != nullptr ? "waived: " + waived->reason : "not in the new report");
}

// ---- notes

void note_files(std::span<const Report> side, std::string_view name, std::vector<std::string>& notes) {
  for (std::size_t i = 0; i < side.size(); ++i) {
    if (!side[i].interrupted) continue;
    notes.push_back(
        fmt::format("Report {} of {} was interrupted: it has only what was finished.", i + 1, name));
  }
}

struct Left {
  std::size_t derived = 0, without = 0;
};

void note_rows(const Left& left, std::vector<std::string>& notes) {
  if (left.derived > 0)
    notes.push_back(fmt::format("{} sums are not compared: they follow from their parts.", left.derived));
  if (left.without > 0)
    notes.push_back(
        fmt::format("{} cases have no numbers on either side (waived, or another metric's).", left.without));
}

void note_power(const std::vector<Judged>& rows, bool samples, bool calibrated,
                std::vector<std::string>& notes) {
  if (rows.empty()) return;
  if (!samples) {
    notes.emplace_back(
        "A report has no samples (CSV): single runs are compared by the intervals of their medians, with "
        "less "
        "power; JSON has the samples.");
  }
  if (std::ranges::none_of(rows, &Judged::several) && !calibrated) {
    notes.emplace_back(
        "Single runs, and nothing tells how far two runs of the same thing lie apart on this machine: only a "
        "factor of 10 counts. Run stbench calibrate once (with the same options), or give several reports a "
        "side: stbench compare BASE1 BASE2 BASE3 -- NEW1 NEW2 NEW3.");
  }
}

/// The cases with a verdict by status alone, and those to judge; the rest is counted.
std::vector<Judged> sort_out(const std::vector<JoinedCase>& joined, const std::vector<MeasuredCase>& measured,
                             bool timed, Comparison& comparison, Left& left) {
  std::vector<Judged> rows;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    ComparedCase compared;
    compared.id = joined[i].id;
    compared.part = measured[i].part;
    compared.metric = measured[i].metric;
    compared.base_runs = measured[i].base.size(), compared.now_runs = measured[i].now.size();
    if (compared.base_runs > 0) compared.base = std::exp(mean_of(measured[i].base));
    if (compared.now_runs > 0) compared.now = std::exp(mean_of(measured[i].now));
    if (const auto plain = without_numbers(joined[i])) {
      compared.verdict = plain->first, compared.note = plain->second;
    } else if (timed && follows_from_others(joined[i])) {
      ++left.derived;
      continue;
    } else if (compared.base_runs == 0 || compared.now_runs == 0) {
      ++left.without;
      continue;
    } else {
      Judged row;
      row.index = comparison.cases.size(), row.measured = &measured[i];
      rows.push_back(row);
    }
    comparison.cases.push_back(std::move(compared));
  }
  return rows;
}

/// When each report's process ran among all of them: places from 0, by the reports' starts. Those that do not
/// say ran in the order given, BASE first.
std::vector<double> places(std::span<const Report> base, std::span<const Report> now) {
  std::vector<std::pair<std::string_view, std::size_t>> starts;
  for (const auto side : {base, now}) {
    for (const Report& report : side) starts.emplace_back(report.started_at, starts.size());
  }
  std::ranges::sort(starts);
  std::vector<double> order(starts.size());
  for (std::size_t place = 0; place < starts.size(); ++place)
    order[starts[place].second] = static_cast<double>(place);
  return order;
}

/// True if a process of each report measured the row.
bool is_whole(const Judged& row, std::span<const Report> base, std::span<const Report> now) {
  return row.measured->base.size() == base.size() && row.measured->now.size() == now.size();
}

/// How much more than the spread within the sides tells they differ, because the machine's speed wanders.
double inflation_of(const std::vector<Judged>& rows, std::span<const Report> base,
                    std::span<const Report> now) {
  const std::vector<double> order = places(base, now);
  const auto of_base = std::span(order).first(base.size()), of_now = std::span(order).last(now.size());
  std::vector<std::vector<double>> series;
  for (const Judged& row : rows) {
    if (row.measured->part != Part::subject || !is_whole(row, base, now)) continue;
    series.push_back(values_of(row.measured->base));
    series.push_back(values_of(row.measured->now));
  }
  // Where the sides take turns, neighbours of a side have a process of the other between them.
  const bool in_turn = std::ranges::max(of_base) > std::ranges::min(of_now);
  const double memory = std::pow(memory_of(series), in_turn ? 0.5 : 1);
  return variance_inflation(memory, of_base, of_now);
}

/// The scatter of the pairs, in units of one process's: a difference has the variance of two.
Scatter scatter_of_pairs(const Judged& row) {
  Scatter scatter;
  scatter.add(differences_of(*row.measured));
  scatter.squares /= 2;
  return scatter;
}

/// True if the i-th processes of both sides ran one after the other, for each i, and measured each row:
/// `compare --run` measures so.
bool run_in_pairs(const std::vector<Judged>& rows, std::span<const Report> base,
                  std::span<const Report> now) {
  constexpr std::size_t kFewest = 3;
  if (base.size() != now.size() || base.size() < kFewest) return false;
  if (!std::ranges::all_of(rows, [&](const Judged& row) { return is_whole(row, base, now); })) return false;
  const std::vector<double> order = places(base, now);
  for (std::size_t i = 0; i < base.size(); ++i) {
    if (std::abs(order[i] - order[base.size() + i]) != 1) return false;
  }
  return true;
}

/// True if the limits become narrower by pairing: all rows together show whether the processes of a pair
/// resemble each other enough. Pairs have at most half the degrees of freedom, so Student's quantile is
/// larger.
bool pairs_are_narrower(const std::vector<Judged>& rows, double inflation, double level) {
  Scatter of_sides, of_pairs;
  double count = 0;
  for (const Judged& row : rows) {
    if (row.measured->part == Part::ceiling) continue;
    ++count;
    of_sides.squares += row.scatter.squares, of_sides.freedom += row.scatter.freedom;
    const Scatter pairs = scatter_of_pairs(row);
    of_pairs.squares += pairs.squares, of_pairs.freedom += pairs.freedom;
  }
  if (count == 0) return false;
  const auto width = [&](const Scatter& scatter) {
    return std::sqrt(scatter.squares / scatter.freedom) * student_quantile(level, scatter.freedom / count);
  };
  return width(of_pairs) < width(of_sides) * std::sqrt(inflation);
}

/// A control moved: what the subjects show may be the machine's doing.
void excuse_subjects(Comparison& comparison) {
  for (ComparedCase& compared : comparison.cases) {
    if (compared.part != Part::subject || !is_moved(compared)) continue;
    compared.note = fmt::format("{}, but a control moved, too", to_string(compared.verdict));
    compared.verdict = Verdict::unresolved;
  }
}

}  // namespace

Comparison compare(std::span<const Report> base, std::span<const Report> now, const ComparisonRules& rules,
                   const CalibratedSpreads* calibration) {
  const std::vector<JoinedCase> joined = join_cases(base, now);
  const ByTime by_time = [&](const Identity& id) {
    return calibration != nullptr && calibration->is_quieter_by_time(id);
  };
  const std::vector<MeasuredCase> measured = measured_cases(joined, rules.metric, by_time);
  const bool timed = rules.metric == "auto" || rules.metric == "time";
  Comparison comparison;
  Left left;
  std::vector<Judged> rows = sort_out(joined, measured, timed, comparison, left);
  if (comparison.cases.empty()) {
    throw ReportError(fmt::format("nothing to compare: neither side has a case with numbers for --metric {}",
                                  rules.metric));
  }
  for (Judged& row : rows) {
    row.scatter.add(values_of(row.measured->base));
    row.scatter.add(values_of(row.measured->now));
    const Scatter* const known =
        calibration == nullptr ? nullptr
                               : calibration->find(comparison.cases[row.index].id, row.measured->metric);
    if (known != nullptr) row.scatter.squares += known->squares, row.scatter.freedom += known->freedom;
  }
  const double inflation = inflation_of(rows, base, now);
  const bool in_pairs =
      run_in_pairs(rows, base, now) && pairs_are_narrower(rows, inflation, rules.false_alarms);
  for (Judged& row : rows) {
    row.paired = in_pairs;
    if (in_pairs) row.scatter = scatter_of_pairs(row);
  }
  judge(rows, rules, inflation, comparison);
  if (in_pairs)
    comparison.notes.emplace_back(
        "The sides took turns, and neighbours resemble each other: each process of BASE is compared with the "
        "one of NEW beside it.");
  if (state_differs(comparison)) excuse_subjects(comparison);
  note_files(base, "BASE", comparison.notes);
  note_files(now, "NEW", comparison.notes);
  note_rows(left, comparison.notes);
  note_power(rows, !timed || have_samples(joined), calibration != nullptr && !calibration->empty(),
             comparison.notes);
  return comparison;
}

}  // namespace stbench::reports
