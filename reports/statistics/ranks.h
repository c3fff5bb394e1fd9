/// Comparisons of two sets of numbers by ranks: no assumption on how the numbers are distributed.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "reports/statistics/statistics.h"

namespace stbench::reports {

struct RankTest {
  double u = 0;        ///< pairs in which the second set's number is the larger; a tie counts half
  double p = 1;        ///< two-sided
  bool exact = false;  ///< else by the normal law
};

/// The Mann-Whitney test. Exact (all ways to deal out the ranks, ties included) if the sets have at most
/// 50 numbers together and the smaller at most 20; above that the normal law, with the correction for ties
/// and for continuity.
/// @throws std::invalid_argument if a set is empty or has a NaN (so do the next).
RankTest mann_whitney(std::span<const double> first, std::span<const double> second);

/// The least p that two sets of these sizes can give: 0.1 for three and three.
double least_p(std::size_t first, std::size_t second);

struct Shift {
  double estimate = 0;               ///< Hodges-Lehmann: the median of all differences second - first
  std::optional<Interval> interval;  ///< of the same test; empty if the sets are too small
};

Shift hodges_lehmann(std::span<const double> first, std::span<const double> second,
                     double coverage = kCoverage);

/// The Wilcoxon signed-rank test: are the differences of pairs about zero? Differences of zero are left out.
/// Exact for at most 50 of them; `u` is the sum of the ranks of those above zero.
/// @throws std::invalid_argument if there is none, or a NaN (so does the next).
RankTest signed_ranks(std::span<const double> differences);

/// The least p that so many pairs can give: 0.0625 for five.
double least_p_of_pairs(std::size_t pairs);

/// Hodges-Lehmann of one set: the median of the means of all pairs of its numbers, each with itself too.
double median_of_walsh_averages(std::span<const double> differences);

/// Holm's correction: a family's p, each so that all at or below a level together err at most at that level.
std::vector<double> holm(std::span<const double> p);

}  // namespace stbench::reports
