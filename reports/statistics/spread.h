/// How far processes of the same thing lie apart: the spread of a row, from few processes and many rows.
///
/// A row's own variance is of a handful of processes and so a poor estimate; thousands of such estimates tell
/// well how variances are distributed. Each row's is drawn towards that (the moderated variance of G. K.
/// Smyth, 2004: a scaled F law fitted to the rows' variances), and the degrees of freedom of the two add up.
/// Where rows differ much in their spread, or its law has long tails, the fit gives little freedom, and what
/// follows from it is wide.
#pragma once

#include <optional>
#include <span>

namespace stbench::reports {

/// What a row's processes tell of its spread, in log values.
struct Scatter {
  double squares = 0;  ///< sum of squared distances from the mean of their side
  double freedom = 0;  ///< processes less sides

  /// Adds the processes of one side.
  void add(std::span<const double> values);
  /// Adds a spread that was found before.
  void add(double deviation, double degrees);
};

/// What all rows together tell.
struct SpreadPrior {
  double variance = 0;
  double freedom = 0;  ///< 0 where nothing is known, infinity where all rows are alike
};

SpreadPrior spread_prior(std::span<const Scatter> rows);

struct Spread {
  double deviation = 0;  ///< of one process's log value
  double freedom = 0;
};

/// Nothing where neither the row nor the others tell anything.
std::optional<Spread> spread_of(const Scatter& row, const SpreadPrior& prior);

}  // namespace stbench::reports
