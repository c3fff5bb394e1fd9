/// The metric of a comparison: a case's time, its time in units of the cell's ceiling, or a column.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/files/case_join.h"
#include "reports/statistics/statistics.h"

namespace stbench::reports {

/// One process's measurement of a case, as logarithms: differences are ratios. Less is better.
struct Measured {
  double value = 0;                  ///< of the median
  std::vector<double> samples;       ///< empty if the report has none
  std::optional<Interval> interval;  ///< 95 % of the value, if the report has it
  std::size_t report = 0;            ///< its place among those of the side
};

/// The role of a row in a comparison.
enum class Part {
  subject,  ///< what the comparison is about; only these rows gate
  ceiling,  ///< the contiguous copies
  control,  ///< LibTorch's methods on LibTorch's own tensors: no change of this project moves them
};

/// "subject", "ceiling", "control".
std::string_view to_string(Part part);

/// The metric of one case and, per side, one value for each process that has numbers.
struct MeasuredCase {
  Part part = Part::subject;
  std::string metric;  ///< "ceiling": time over the ceiling's; "time"; or the name of a column
  std::vector<Measured> base, now;
};

/// True if a case is compared by its time although its cell has a ceiling.
using ByTime = std::function<bool(const Identity& id)>;

/// @param metric "auto" (for subjects whose cell has a ceiling in every report, the time over the ceiling's;
/// else
///   the time), "time", or a column of numbers where less is better.
/// @param by_time of the metric "auto"; empty for none
/// @returns one element per element of `cases`, in their order. A case whose metric a side does not have is
/// empty
///   on that side.
///
/// The ceiling of a cell is the same method in all reports: the fastest over all, and `stream`, which is this
/// project's own code, only if there is no other. A regression of `stream` would hide one of the kernels.
/// Rounds are paired where both were measured in the same ones. If one report has no samples (CSV), those of
/// the others are not used: a median of ratios and a ratio of medians are not the same.
std::vector<MeasuredCase> measured_cases(const std::vector<JoinedCase>& cases, const std::string& metric,
                                         const ByTime& by_time = {});

/// True if every measured row of the cases has its samples.
bool have_samples(const std::vector<JoinedCase>& cases);

/// True for sums, which are not timed but computed from other rows.
bool follows_from_others(const JoinedCase& joined);

}  // namespace stbench::reports
