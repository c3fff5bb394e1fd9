/// The verdict of each row that has numbers on both sides: by ranks, by the effect asked for, and by what
/// runs of the same thing differ by (comparison.h says how).
#pragma once

#include <cstddef>
#include <vector>

#include "reports/compare/compared_case.h"
#include "reports/compare/metric.h"
#include "reports/statistics/ranks.h"
#include "reports/statistics/spread.h"

namespace stbench::reports {

/// A row with numbers on both sides, on its way to a verdict. All in logarithms.
struct Judged {
  std::size_t index = 0;  // among the comparison's cases
  const MeasuredCase* measured = nullptr;
  Shift shift;
  double p = 1;
  Scatter scatter;
  std::optional<Spread> spread = std::nullopt;  ///< what judge() takes it for
  /// Each process of BASE is compared with the process of NEW beside it, and `scatter` is of the pairs.
  bool paired = false;

  [[nodiscard]] bool several() const { return measured->base.size() > 1 || measured->now.size() > 1; }
  /// The variance of a shift in units of one process's.
  [[nodiscard]] double share() const {
    return 1 / static_cast<double>(measured->base.size()) + 1 / static_cast<double>(measured->now.size());
  }
};

std::vector<double> values_of(const std::vector<Measured>& side);

/// NEW less BASE, of each pair of a row whose sides have the same number of processes.
std::vector<double> differences_of(const MeasuredCase& measured);

/// Fills the verdicts of the comparison's cases that `rows` name, and its controls.
/// @param rows whose scatter is known
/// @param inflation of the variance of a shift between several processes per side that are not paired
/// (statistics/memory.h)
void judge(std::vector<Judged>& rows, const ComparisonRules& rules, double inflation, Comparison& comparison);

}  // namespace stbench::reports
