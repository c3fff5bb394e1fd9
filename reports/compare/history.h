/// Many reports of one machine, the oldest first: what the latest changed, and what creeps.
///
/// The latest report stands against all earlier ones as in a comparison (comparison.h): its change is against
/// the median of the earlier ones. A slowdown too small for that shows as a trend over the series. A case
/// drifts if three conditions hold:
///
/// - The Mann-Kendall test, with Holm's correction over the cases, errs at most once in a hundred histories.
///   Its variance is that of reports which resemble their neighbours as much as these do.
/// - The trend over the whole series is at least the requested effect.
/// - No control drifts: else the machine may be the cause.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/compare/comparison.h"
#include "reports/compare/conclusion.h"

namespace stbench::reports {

/// With fewer values no case drifts.
inline constexpr std::size_t kShortestHistory = 8;

struct HistoryRow {
  ComparedCase latest;  ///< `base` is the median of the earlier reports
  std::vector<std::optional<double>>
      values;                   ///< one per report, in the unit of `latest`; empty if the report has none
  std::optional<double> drift;  ///< over the whole series: 0.2 is 20 % slower; empty if it is too short
  std::optional<double> p;      ///< of the trend, Holm's
  bool drifts = false;
};

struct History {
  std::vector<HistoryRow> rows;
  Comparison comparison;  ///< of the latest with the earlier reports
  bool control_drifts = false;
};

/// In the order of their starts. Reports that do not say when they started keep their places.
void sort_by_start(std::vector<Report>& reports);

/// @param reports two or more, the oldest first
/// @throws ReportError as compare(), and for fewer than two
History history(std::span<const Report> reports, const ComparisonRules& rules = {});

/// Counts both: a case that drifts to slower is slower.
Conclusion conclude(const History& history, const ComparisonRules& rules, bool allow_missing);

}  // namespace stbench::reports
