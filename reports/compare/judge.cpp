#include "reports/compare/judge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "reports/statistics/probability.h"
#include "reports/statistics/ranks.h"

namespace stbench::reports {
namespace {

/// Two single runs of unknown spread: the widest gap between two of five processes of the same thing was 5.2
/// on the noisiest machine seen.
constexpr double kGross = 10;
/// A row whose limit is wider than half of its time is not called the same: nothing was found out of it.
constexpr double kTellsNothing = 0.5;
/// No run has so many processes per side, or so many samples.
constexpr std::int64_t kEnoughRuns = 1000;
/// The power at which a slowdown counts as one that would have been seen, and the normal quantile of it.
constexpr double kPowerQuantile = 0.8416;  // 80 %
/// The level at which the processes of both sides must differ by ranks, if they can: the limit does the
/// rest.
constexpr double kRanksApart = 0.05;

/// The test of two single runs without samples: the intervals of the medians, taken as normal.
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
  if (row.paired) {
    const std::vector<double> differences = differences_of(*row.measured);
    row.p = signed_ranks(differences).p;
    row.shift = {.estimate = median_of_walsh_averages(differences)};
    return;
  }
  const auto first = row.several() ? values_of(row.measured->base) : base.samples;
  const auto second = row.several() ? values_of(row.measured->now) : now.samples;
  row.p = mann_whitney(first, second).p;
  row.shift = hodges_lehmann(first, second);
}

/// Single runs are tested by their samples: there are enough for a correction over the rows.
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
  const std::size_t base = row.measured->base.size(), now = row.measured->now.size();
  const double least = row.paired ? least_p_of_pairs(base) : least_p(base, now);
  return row.p <= 1.000001 * std::max(kRanksApart, least);
}

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

/// How many standard errors a shift must have, so that all rows together raise an alarm at most as often as
/// the level says. Either the rows are independent: then there are many, and the spread is known well. Or
/// they move together: then they are as one, and the spread is known as badly as one row tells it. The larger
/// of the two stands.
///
/// However well the spread is known, the law is not the normal one: processes are now and then far off, and
/// rows share a part of their luck. Student's with few degrees of freedom stands for that, the fewer the
/// fewer runs a side has: without it 3 % of pairs of single runs with long tails raised an alarm, and 2 % of
/// five against five that drift together; with 7 degrees for single runs still 1.5 %
/// (tests/reports/compare/audit_test.cpp).
double standard_errors(const Spread& spread, double own_freedom, const Judged& row, std::size_t rows,
                       double level, Quantiles& quantiles) {
  constexpr double kOfAll = 4, kOfEachRun = 1.4;
  const auto runs = static_cast<double>(std::min(row.measured->base.size(), row.measured->now.size()));
  const double freedom = std::min(spread.freedom, kOfAll + kOfEachRun * runs);
  const double alone = quantiles.student(level / static_cast<double>(rows), freedom);
  return std::max(alone, quantiles.student(level, own_freedom));
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
  Judge(const ComparisonRules& rules, std::vector<Judged>& rows, double inflation, Comparison& comparison)
      : rules_(rules), rows_(rows), inflation_(inflation), comparison_(comparison) {
    std::vector<Scatter> scatters;
    for (const Judged& row : rows) {
      scatters.push_back(row.scatter);
      most_freedom_ = std::max(most_freedom_, row.scatter.freedom);
    }
    const SpreadPrior prior = spread_prior(scatters);
    for (Judged& row : rows) row.spread = spread_of(row.scatter, prior);
    fewest_samples_ = fewest_samples(rows.size(), rules.false_alarms);
  }

  void judge_all() {
    for (Judged& row : rows_) judge(row);
    judge_controls();
  }

 private:
  /// The standard error of the row's shift.
  [[nodiscard]] double error_of(const Judged& row) const {
    return row.spread->deviation * std::sqrt(row.share() * (row.several() && !row.paired ? inflation_ : 1));
  }

  /// The degrees of freedom of the row's own spread, or of the best known; above 0 if any row has a spread.
  [[nodiscard]] double own_freedom(const Judged& row) const {
    return row.scatter.freedom > 0 ? row.scatter.freedom : most_freedom_;
  }

  /// True if all controls together moved. They share what the whole machine does, so their mean shift is held
  /// against the mean of their errors, as if they were one row.
  void judge_controls() {
    double shift = 0, error = 0, freedom = most_freedom_;
    std::size_t controls = 0;
    for (const Judged& row : rows_) {
      if (comparison_.cases[row.index].part != Part::control || !row.spread) continue;
      ++controls;
      shift += row.shift.estimate, error += error_of(row);
      freedom = std::min(freedom, own_freedom(row));
    }
    if (controls == 0) return;
    const auto n = static_cast<double>(controls);
    const double factor = quantiles_.student(rules_.false_alarms, freedom);
    const double limit = std::max(std::log1p(rules_.effect), factor * error / n);
    comparison_.controls = {controls, std::expm1(shift / n), std::expm1(limit), std::abs(shift / n) >= limit};
  }

  void judge(Judged& row) {
    ComparedCase& compared = comparison_.cases[row.index];
    compared.change = std::expm1(row.shift.estimate);
    compared.p = row.p;
    if (row.spread) {
      judge_by_spread(row, *row.spread, compared);
    } else {
      judge_gross(row, compared);
    }
    if (compared.verdict == Verdict::unresolved && !row.several() && too_few_samples(row))
      compared.needs_samples = fewest_samples_;
  }

  void judge_by_spread(Judged& row, const Spread& spread, ComparedCase& compared) {
    const double own = own_freedom(row);
    const double factor = standard_errors(spread, own, row, rows_.size(), rules_.false_alarms, quantiles_);
    const double error = error_of(row), deviation = error / std::sqrt(row.share());
    const double least = std::log1p(rules_.effect), limit = std::max(least, factor * error);
    const double reach = quantiles_.student(1 - kCoverage, std::min(spread.freedom, own)) * error;
    const double size = std::abs(row.shift.estimate), tolerable = std::max(least, std::log1p(kTellsNothing));
    compared.limit = std::expm1(limit);
    compared.sees = visible(row, limit + kPowerQuantile * error);
    set_interval(compared, {row.shift.estimate - reach, row.shift.estimate + reach});
    if (size >= limit && ranks_differ(row, rules_)) {
      compared.verdict = row.shift.estimate > 0 ? Verdict::slower : Verdict::faster;
    } else if (size + reach <= limit && limit <= tolerable) {
      compared.verdict = Verdict::same;
    } else if (size >= least) {
      compared.needs_runs = runs_for(deviation * factor, size);
    } else if (limit > tolerable) {
      compared.needs_runs = runs_for(deviation * factor, tolerable);
    } else {
      compared.needs_runs = runs_for(deviation * reach / error, least - size);
    }
  }

  void judge_gross(const Judged& row, ComparedCase& compared) {
    const double limit = std::max(std::log(kGross), std::log1p(rules_.effect));
    compared.limit = std::expm1(limit);
    compared.sees = visible(row, limit);
    if (row.shift.interval) set_interval(compared, *row.shift.interval);
    if (std::abs(row.shift.estimate) >= limit && ranks_differ(row, rules_)) {
      compared.verdict = row.shift.estimate > 0 ? Verdict::slower : Verdict::faster;
    }
  }

  /// The slowdown that is called one in 80 % of comparisons: it must pass the limit, and in two single runs
  /// the rank test of their samples, whose reach the interval of the shift tells. Nothing if no slowdown
  /// would be.
  std::optional<double> visible(const Judged& row, double by_spread) {
    if (row.several()) return std::expm1(by_spread);
    if (!row.shift.interval || too_few_samples(row)) return std::nullopt;
    const double of_level =
        quantiles_.student(rules_.false_alarms / static_cast<double>(rows_.size()), INFINITY);
    const double error = (row.shift.interval->high - row.shift.interval->low) / 2 /
                         quantiles_.student(1 - kCoverage, INFINITY);
    return std::expm1(std::max(by_spread, (of_level + kPowerQuantile) * error));
  }

  [[nodiscard]] bool too_few_samples(const Judged& row) const {
    const auto& base = row.measured->base.front().samples;
    const auto& now = row.measured->now.front().samples;
    if (base.empty() || now.empty()) return false;
    return static_cast<std::int64_t>(std::min(base.size(), now.size())) < fewest_samples_;
  }

  static void set_interval(ComparedCase& compared, Interval interval) {
    compared.low = std::expm1(interval.low);
    compared.high = std::expm1(interval.high);
  }

  const ComparisonRules& rules_;
  std::vector<Judged>& rows_;
  double inflation_;
  Comparison& comparison_;
  Quantiles quantiles_;
  double most_freedom_ = 0;
  std::int64_t fewest_samples_ = 0;  ///< of a single run, before which no rank test can tell
};

}  // namespace

std::vector<double> values_of(const std::vector<Measured>& side) {
  std::vector<double> values;
  for (const Measured& measured : side) values.push_back(measured.value);
  return values;
}

std::vector<double> differences_of(const MeasuredCase& measured) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < measured.base.size(); ++i)
    differences.push_back(measured.now.at(i).value - measured.base[i].value);
  return differences;
}

void judge(std::vector<Judged>& rows, const ComparisonRules& rules, double inflation,
           Comparison& comparison) {
  for (Judged& row : rows) test_ranks(row);
  correct_for_rows(rows);
  Judge(rules, rows, inflation, comparison).judge_all();
}

}  // namespace stbench::reports
