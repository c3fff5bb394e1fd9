/// What of a case is compared: its time, its time in units of the cell's ceiling, or a column.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reports/files/case_join.h"
#include "reports/statistics/statistics.h"

namespace stbench::reports {

/// What one process says of a case: logarithms, so that differences are ratios. Less is better.
struct Measured {
  double value = 0;                  ///< of the median
  std::vector<double> samples;       ///< empty where the report has none
  std::optional<Interval> interval;  ///< 95 % of the value, where the report says
};

/// The metric of one case: which one, and of each side a value a process that has numbers.
struct MeasuredCase {
  std::string metric;  ///< "ceiling": time over the ceiling's; "time"; or the name of a column
  std::vector<Measured> base, now;
};

/// @param metric "auto" (relative to the ceiling where the cell has one in every report, but the ceilings
///   themselves, else time), "time", or a column of numbers of which less is better.
/// @returns one an element of `cases`, in their order. A case whose metric a side does not have is empty on
///   that side.
///
/// The ceiling of a cell is the same method in all reports, the one that is fastest over all. Rounds are
/// paired where both were measured in the same ones. Where one report has no samples (CSV), those of the
/// others are not looked at: a median of ratios and a ratio of medians are not the same.
std::vector<MeasuredCase> measured_cases(const std::vector<JoinedCase>& cases, const std::string& metric);

/// True where every measured row of the cases has its samples.
bool have_samples(const std::vector<JoinedCase>& cases);

/// True for sums: nobody timed them, they follow from other rows.
bool follows_from_others(const JoinedCase& joined);

}  // namespace stbench::reports
