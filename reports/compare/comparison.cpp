#include "reports/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "reports/compare/metric.h"
#include "reports/error.h"
#include "reports/files/case_join.h"
#include "reports/statistics/probability.h"
#include "reports/statistics/ranks.h"

namespace stbench::reports {
namespace {

/// Two single runs of unknown spread: the widest gap between two of five processes of the same thing was 5.2
/// on the noisiest machine seen.
constexpr double kGross = 10;
/// A row whose limit is wider than half of its time is not called the same: nothing was found out of it.
constexpr double kTellsNothing = 0.5;
/// So many processes a side, or so many samples, nobody will ever run.
constexpr std::int64_t kEnoughRuns = 1000;
/// The level at which the processes of both sides must differ by ranks, where they can: the limit does the
/// rest.
constexpr double kRanksApart = 0.05;

/// A row with numbers on both sides, on its way to a verdict. All in logarithms.
struct Judged {
  std::size_t index = 0;  // among the comparison's cases
  const MeasuredCase* measured = nullptr;
  Shift shift;
  double p = 1;
  Scatter scatter;

  [[nodiscard]] bool several() const { return measured->base.size() > 1 || measured->now.size() > 1; }
  /// The variance of a shift in units of one process's.
  [[nodiscard]] double share() const {
    return 1 / static_cast<double>(measured->base.size()) + 1 / static_cast<double>(measured->now.size());
  }
};

std::vector<double> values_of(const std::vector<Measured>& side) {
  std::vector<double> values;
  for (const Measured& measured : side) values.push_back(measured.value);
  return values;
}

double mean_of(const std::vector<Measured>& side) {
  double sum = 0;
  for (const Measured& measured : side) sum += measured.value;
  return sum / static_cast<double>(side.size());
}

/// What two single runs without samples tell: the intervals of the medians, taken as normal.
void test_intervals(Judged& row) {
  const Measured &base = row.measured->base.front(), &now = row.measured->now.front();
  row.shift.estimate = now.value - base.value;
  if (!base.interval || !now.interval) return;
  const double reach =
      std::hypot(base.interval->high - base.interval->low, now.interval->high - now.interval->low) / 2;
  row.shift.interval = Interval{row.shift.estimate - reach, row.shift.estimate + reach};
  const double deviation = reach / student_quantile(1 - kCoverage, INFINITY);
  row.p =
      deviation > 0 ? normal_two_sided(row.shift.estimate / deviation) : (row.shift.estimate == 0 ? 1 : 0);
}

void test_ranks(Judged& row) {
  const Measured &base = row.measured->base.front(), &now = row.measured->now.front();
  if (!row.several() && (base.samples.empty() || now.samples.empty())) return test_intervals(row);
  const auto first = row.several() ? values_of(row.measured->base) : base.samples;
  const auto second = row.several() ? values_of(row.measured->now) : now.samples;
  row.p = mann_whitney(first, second).p;
  row.shift = hodges_lehmann(first, second);
}

/// Single runs are tested by their samples, of which there are enough for a correction over the rows.
void correct_for_rows(std::vector<Judged>& rows) {
  std::vector<double> single;
  for (const Judged& row : rows) {
    if (!row.several()) single.push_back(row.p);
  }
  auto corrected = holm(single);
  auto next = corrected.begin();
  for (Judged& row : rows) {
    if (!row.several()) row.p = *next++;
  }
}

bool ranks_differ(const Judged& row, const ComparisonRules& rules) {
  if (!row.several()) return row.p <= rules.false_alarms;
  return row.p <=
         std::max(kRanksApart, least_p(row.measured->base.size(), row.measured->now.size()) * 1.000001);
}

/// All rows of a comparison: together they raise an alarm at most so often.
struct Family {
  std::size_t rows;
  double level;
};

/// Student's quantiles, each found once: most rows ask for the same.
class Quantiles {
 public:
  double student(double p, double freedom) {
    const auto [position, is_new] = known_.emplace(std::pair(p, freedom), 0.0);
    if (is_new) position->second = student_quantile(p, freedom);
    return position->second;
  }

 private:
  std::map<std::pair<double, double>, double> known_;
};

/// How many standard errors a shift must have. Either the rows are independent: then there are many, and the
/// spread is known well. Or they move together: then they are as one, and the spread is known as badly as one
/// row tells it. The larger of the two stands.
///
/// However well the spread is known, the law is not the normal one: processes are now and then far off, and
/// rows share a part of their luck. Student's with few degrees of freedom stands for that, the fewer the
/// fewer runs a side has: without it 3 % of pairs of single runs with long tails raised an alarm, and 2 % of
/// five against five that drift together (tests/reports/compare/false_alarms_test.cpp).
double standard_errors(const Spread& spread, double own_freedom, const Judged& row, Family family,
                       Quantiles& quantiles) {
  constexpr double kOfSingleRuns = 6, kOfEachRun = 1;
  const auto runs = static_cast<double>(std::min(row.measured->base.size(), row.measured->now.size()));
  const double freedom = std::min(spread.freedom, kOfSingleRuns + kOfEachRun * runs);
  const double alone = quantiles.student(family.level / static_cast<double>(family.rows), freedom);
  const double together = own_freedom > 0 ? quantiles.student(family.level, own_freedom) : 0;
  return std::max(alone, together);
}

std::optional<std::int64_t> runs_for(double reach, double target) {
  const double runs = std::ceil(2 * (reach / target) * (reach / target));
  if (!(runs <= kEnoughRuns)) return std::nullopt;
  return static_cast<std::int64_t>(runs);
}

/// The fewest samples with which the rank test can reach the level after the correction for the rows.
std::int64_t fewest_samples(std::size_t rows, double level) {
  std::size_t n = 1;
  while (least_p(n, n) * static_cast<double>(rows) > level) ++n;
  return static_cast<std::int64_t>(n);
}

class Judge {
 public:
  Judge(const ComparisonRules& rules, std::vector<Judged>& rows, Comparison& comparison)
      : rules_(rules), rows_(rows), comparison_(comparison) {
    std::vector<Scatter> scatters;
    for (const Judged& row : rows) {
      scatters.push_back(row.scatter);
      most_freedom_ = std::max(most_freedom_, row.scatter.freedom);
    }
    prior_ = spread_prior(scatters);
  }

  void judge_all() {
    for (Judged& row : rows_) judge(row);
  }

 private:
  void judge(Judged& row) {
    ComparedCase& compared = comparison_.cases[row.index];
    compared.change = std::expm1(row.shift.estimate);
    compared.p = row.p;
    if (const auto spread = spread_of(row.scatter, prior_)) {
      judge_by_spread(row, *spread, compared);
    } else {
      judge_gross(row, compared);
    }
    if (compared.verdict == Verdict::unresolved) say_how_many_samples(row, compared);
  }

  void judge_by_spread(Judged& row, const Spread& spread, ComparedCase& compared) {
    const double own = row.scatter.freedom > 0 ? row.scatter.freedom : most_freedom_;
    const double factor = standard_errors(spread, own, row, {rows_.size(), rules_.false_alarms}, quantiles_);
    const double error = spread.deviation * std::sqrt(row.share());
    const double least = std::log1p(rules_.effect), limit = std::max(least, factor * error);
    const double freedom = own > 0 ? std::min(spread.freedom, own) : spread.freedom;
    const double reach = quantiles_.student(1 - kCoverage, freedom) * error;
    const double size = std::abs(row.shift.estimate), tolerable = std::max(least, std::log1p(kTellsNothing));
    compared.limit = std::expm1(limit);
    set_interval(compared, {row.shift.estimate - reach, row.shift.estimate + reach});
    if (size >= limit && ranks_differ(row, rules_)) {
      compared.verdict = row.shift.estimate > 0 ? Verdict::slower : Verdict::faster;
    } else if (size + reach <= limit && limit <= tolerable) {
      compared.verdict = Verdict::same;
    } else if (size >= least) {
      compared.needs_runs = runs_for(spread.deviation * factor, size);
    } else if (limit > tolerable) {
      compared.needs_runs = runs_for(spread.deviation * factor, tolerable);
    } else {
      compared.needs_runs = runs_for(spread.deviation * reach / error, least - size);
    }
  }

  void judge_gross(const Judged& row, ComparedCase& compared) {
    const double limit = std::max(std::log(kGross), std::log1p(rules_.effect));
    compared.limit = std::expm1(limit);
    if (row.shift.interval) set_interval(compared, *row.shift.interval);
    if (std::abs(row.shift.estimate) >= limit && ranks_differ(row, rules_)) {
      compared.verdict = row.shift.estimate > 0 ? Verdict::slower : Verdict::faster;
    }
  }

  void say_how_many_samples(const Judged& row, ComparedCase& compared) {
    if (row.several()) return;
    const auto& base = row.measured->base.front().samples;
    const auto& now = row.measured->now.front().samples;
    if (base.empty() || now.empty()) return;
    const std::int64_t fewest = fewest_samples(rows_.size(), rules_.false_alarms);
    if (static_cast<std::int64_t>(std::min(base.size(), now.size())) < fewest)
      compared.needs_samples = fewest;
  }

  static void set_interval(ComparedCase& compared, Interval interval) {
    compared.low = std::expm1(interval.low);
    compared.high = std::expm1(interval.high);
  }

  const ComparisonRules& rules_;
  std::vector<Judged>& rows_;
  Comparison& comparison_;
  Quantiles quantiles_;
  SpreadPrior prior_;
  double most_freedom_ = 0;
};

// ---- what has no numbers on a side

const Record* first_with(const std::vector<const Record*>& side, Status status) {
  const auto found = std::find_if(side.begin(), side.end(), [&](const Record* record) {
    return record != nullptr && record->status == status;
  });
  return found == side.end() ? nullptr : *found;
}

bool any_numbers(const std::vector<const Record*>& side) {
  return std::any_of(side.begin(), side.end(),
                     [](const Record* record) { return record != nullptr && has_numbers(record->status); });
}

/// Verdicts that no number is needed for; nothing where there is one on both sides, or on none.
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
  const bool single = std::none_of(rows.begin(), rows.end(), [](const Judged& row) { return row.several(); });
  if (single && !calibrated) {
    notes.emplace_back(
        "Single runs, and nothing tells how far two runs of the same thing lie apart on this machine: only a "
        "factor of 10 counts. Run stbench calibrate once (with the same options), or give several reports a "
        "side: stbench compare BASE1 BASE2 BASE3 -- NEW1 NEW2 NEW3.");
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 7> kNames = {"slower",     "now-wrong", "missing", "faster",
                                                      "unresolved", "same",      "new"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

namespace {

/// The cases with a verdict by status alone, and those to judge; the rest is counted.
std::vector<Judged> sort_out(const std::vector<JoinedCase>& joined, const std::vector<MeasuredCase>& measured,
                             bool timed, Comparison& comparison, Left& left) {
  std::vector<Judged> rows;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    ComparedCase compared;
    compared.id = joined[i].id;
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

}  // namespace

Comparison compare(std::span<const Report> base, std::span<const Report> now, const ComparisonRules& rules,
                   const CalibratedSpreads* calibration) {
  const std::vector<JoinedCase> joined = join_cases(base, now);
  const std::vector<MeasuredCase> measured = measured_cases(joined, rules.metric);
  const bool timed = rules.metric == "auto" || rules.metric == "time";
  Comparison comparison;
  Left left;
  std::vector<Judged> rows = sort_out(joined, measured, timed, comparison, left);
  if (comparison.cases.empty()) {
    throw ReportError(fmt::format("nothing to compare: neither side has a case with numbers for --metric {}",
                                  rules.metric));
  }
  for (Judged& row : rows) {
    test_ranks(row);
    row.scatter.add(values_of(row.measured->base));
    row.scatter.add(values_of(row.measured->now));
    const Scatter* const known =
        calibration == nullptr ? nullptr
                               : calibration->find(comparison.cases[row.index].id, row.measured->metric);
    if (known != nullptr) row.scatter.squares += known->squares, row.scatter.freedom += known->freedom;
  }
  correct_for_rows(rows);
  Judge(rules, rows, comparison).judge_all();
  note_files(base, "BASE", comparison.notes);
  note_files(now, "NEW", comparison.notes);
  note_rows(left, comparison.notes);
  note_power(rows, !timed || have_samples(joined), calibration != nullptr && !calibration->empty(),
             comparison.notes);
  return comparison;
}

std::size_t count(const Comparison& comparison, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(comparison.cases.begin(), comparison.cases.end(),
                    [&](const ComparedCase& compared) { return compared.verdict == verdict; }));
}

int exit_status(const Comparison& comparison, bool allow_missing) {
  if (count(comparison, Verdict::now_wrong) > 0) return 2;
  const bool lost = !allow_missing && count(comparison, Verdict::missing) > 0;
  return lost || count(comparison, Verdict::slower) > 0 ? 1 : 0;
}

}  // namespace stbench::reports
