/// The spread of a row between processes of the same program, from few processes and many rows.
///
/// A row's own variance comes from a handful of processes and is a poor estimate. Thousands of such estimates
/// show how variances are distributed. Each row's variance shrinks towards that distribution (the moderated
/// variance of G. K. Smyth, 2004: a scaled F law fitted to the rows' variances), and the degrees of freedom
/// of the two add up. If the spreads of the rows differ much, or their law has long tails, the fit has few
/// degrees of freedom and the intervals are wide.
#pragma once

#include <optional>
#include <span>

namespace stbench::reports {

/// The evidence of a row's processes on its spread, in log values.
struct Scatter {
  double squares = 0;  ///< sum of squared distances from the mean of their side
  double freedom = 0;  ///< processes less sides

  /// Adds the processes of one side.
  void add(std::span<const double> values);
  /// Adds a spread that was found before.
  void add(double deviation, double degrees);
};

/// The fit over all rows.
struct SpreadPrior {
  double variance = 0;
  double freedom = 0;  ///< 0 if nothing is known, infinity if all rows are alike
};

SpreadPrior spread_prior(std::span<const Scatter> rows);

struct Spread {
  double deviation = 0;  ///< of one process's log value
  double freedom = 0;
};

/// Empty if neither the row nor the others have evidence.
std::optional<Spread> spread_of(const Scatter& row, const SpreadPrior& prior);

}  // namespace stbench::reports
