/// The trend of a series: whether later numbers are larger, and by how much per step.
#pragma once

#include <span>
#include <vector>

namespace stbench::reports {

struct Trend {
  double slope = 0;  ///< Theil-Sen: the median of the slopes between all pairs, per step
  double p = 1;      ///< two-sided, of the Mann-Kendall test: ranks only, whatever the noise's distribution
};

/// @param memory the correlation of neighbours (memory.h). Numbers that resemble their neighbours drift
/// without a cause, so the test's variance grows with it (Hamed and Rao, 1998).
/// @returns no slope and p = 1 for fewer than three numbers
Trend trend_of(std::span<const double> series, double memory = 0);

/// The series without its slope, for an estimate of its memory that a trend does not enlarge.
std::vector<double> without_trend(std::span<const double> series);

}  // namespace stbench::reports
