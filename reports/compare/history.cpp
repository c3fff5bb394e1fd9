#include "reports/compare/history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "reports/compare/compared_texts.h"
#include "reports/error.h"
#include "reports/files/case_join.h"
#include "reports/statistics/memory.h"
#include "reports/statistics/ranks.h"
#include "reports/statistics/statistics.h"
#include "reports/statistics/trend.h"

namespace stbench::reports {
namespace {

using Values = std::vector<std::optional<double>>;

std::vector<double> present(const Values& values) {
  std::vector<double> numbers;
  for (const auto& value : values) {
    if (value) numbers.push_back(*value);
  }
  return numbers;
}

/// The logarithms of each case in each report, by the case's key.
std::map<std::string, Values> series_of(std::span<const Report> reports, const std::string& metric) {
  const std::vector<JoinedCase> joined = join_cases(reports, {});
  const std::vector<MeasuredCase> measured = measured_cases(joined, metric);
  std::map<std::string, Values> series;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    Values values(reports.size());
    for (const Measured& one : measured[i].base) values.at(one.report) = one.value;
    series.emplace(join_key(joined[i].id), std::move(values));
  }
  return series;
}

/// The trends of rows with enough values.
class Trends {
 public:
  /// The autocorrelation of all rows without their trends. Removing the trends hides a part of it, so for
  /// subjects ceilings and controls count with their trends, too: no change of this project gives them one.
  Trends(const std::vector<HistoryRow>& rows, const std::vector<Values>& series) {
    std::vector<std::vector<double>> rest, references;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> numbers = present(series[i]);
      if (numbers.size() < kShortestHistory) continue;
      rest.push_back(without_trend(numbers));
      if (rows[i].latest.part != Part::subject) references.push_back(numbers);
    }
    memory_ = memory_of(rest);
    of_subjects_ = std::max(memory_, memory_of(references));
  }

  [[nodiscard]] std::optional<Trend> of(const Values& values, Part part) const {
    const std::vector<double> numbers = present(values);
    if (numbers.size() < kShortestHistory) return std::nullopt;
    return trend_of(numbers, part == Part::subject ? of_subjects_ : memory_);
  }

 private:
  double memory_ = 0, of_subjects_ = 0;
};

void add_trends(std::vector<HistoryRow>& rows, const std::vector<Values>& series,
                const ComparisonRules& rules) {
  const Trends trends(rows, series);
  std::vector<HistoryRow*> tested;
  std::vector<double> p;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto trend = trends.of(series[i], rows[i].latest.part);
    if (!trend) continue;
    rows[i].drift = std::expm1(trend->slope * static_cast<double>(present(series[i]).size() - 1));
    // Ceilings are references: nothing is said of their drift, so they take no part in the correction.
    if (rows[i].latest.part == Part::ceiling) continue;
    tested.push_back(&rows[i]), p.push_back(trend->p);
  }
  const std::vector<double> corrected = holm(p);
  for (std::size_t i = 0; i < tested.size(); ++i) {
    tested[i]->p = corrected[i];
    const bool large = std::abs(std::log1p(*tested[i]->drift)) >= std::log1p(rules.effect);
    tested[i]->drifts = corrected[i] <= rules.false_alarms && large;
  }
}

/// "3 cases crept slower over the series, by 12.0% to 21.0%"
std::string creep_text(const std::vector<double>& drifts) {
  const auto [least, most] = std::ranges::minmax(drifts);
  const std::string by =
      drifts.size() == 1 ? percent(most) : fmt::format("{} to {}", percent(least), percent(most));
  return fmt::format("{} {} over the series, by {}.", drifts.size(),
                     drifts.size() == 1 ? "case crept slower" : "cases crept slower", by);
}

}  // namespace

void sort_by_start(std::vector<Report>& reports) {
  const bool known = std::ranges::none_of(reports, &std::string::empty, &Report::started_at);
  if (known) std::ranges::stable_sort(reports, {}, &Report::started_at);
}

History history(std::span<const Report> reports, const ComparisonRules& rules) {
  if (reports.size() < 2)
    throw ReportError(fmt::format("a history needs two reports or more; there {} {}",
                                  reports.size() == 1 ? "is" : "are", reports.size()));
  History history;
  history.comparison = compare(reports.first(reports.size() - 1), reports.last(1), rules);
  const auto series = series_of(reports, rules.metric);
  std::vector<Values> logs;
  for (const ComparedCase& compared : history.comparison.cases) {
    HistoryRow row{compared, {}, std::nullopt, std::nullopt, false};
    const Values& values = series.at(join_key(compared.id));
    for (const auto& value : values)
      row.values.push_back(value ? std::optional(std::exp(*value)) : std::nullopt);
    if (const auto earlier = present({values.begin(), values.end() - 1}); !earlier.empty())
      row.latest.base = std::exp(median(earlier));
    logs.push_back(values);
    history.rows.push_back(std::move(row));
  }
  add_trends(history.rows, logs, rules);
  history.control_drifts = std::ranges::any_of(
      history.rows, [](const HistoryRow& row) { return row.drifts && row.latest.part == Part::control; });
  if (history.control_drifts) {
    for (HistoryRow& row : history.rows) row.drifts = row.drifts && row.latest.part == Part::control;
  }
  return history;
}

Conclusion conclude(const History& history, const ComparisonRules& rules, bool allow_missing) {
  Conclusion conclusion = conclude(history.comparison, rules, allow_missing);
  if (history.control_drifts) {
    conclusion.text +=
        " LibTorch's own rows drift over the series: the machine changed, so no drift is called slower.";
    if (conclusion.outcome != Outcome::no_slowdown) return conclusion;
    conclusion.outcome = Outcome::inconclusive, conclusion.exit_status = 4, conclusion.word = "Inconclusive";
    return conclusion;
  }
  std::vector<double> slower;
  for (const HistoryRow& row : history.rows) {
    if (row.drifts && *row.drift > 0) slower.push_back(*row.drift);
  }
  if (slower.empty()) return conclusion;
  conclusion.text = creep_text(slower) + " " + conclusion.text;
  if (conclusion.outcome == Outcome::wrong || conclusion.outcome == Outcome::slower) return conclusion;
  conclusion.outcome = Outcome::slower, conclusion.exit_status = 1, conclusion.word = "Slower";
  return conclusion;
}

}  // namespace stbench::reports
