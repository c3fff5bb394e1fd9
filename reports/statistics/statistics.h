/// Samples to figures: medians, quantiles, order-statistic intervals, and the ratios between the methods of a
/// cell.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/record.h"

namespace stbench::reports {

struct Interval {
  double low = 0;
  double high = 0;
  bool operator==(const Interval&) const = default;
};

/// Coverage of the intervals of a report.
inline constexpr double kCoverage = 0.95;

/// @throws std::invalid_argument if there are no samples (so do the next).
double median(std::span<const double> samples);

/// NumPy's default quantile: linear between the two nearest order statistics.
/// @param q from 0 to 1.
double quantile(std::span<const double> samples, double q);

/// The largest rank k (from 1) for which the k-th smallest and the k-th largest of n samples enclose the
/// median with at least this probability, whatever the samples' distribution: P(k <= B <= n-k), B ~
/// Binomial(n, 1/2). Nothing if n is too small for any (n < 6 at 95 %).
std::optional<std::size_t> interval_rank(std::size_t n, double coverage = kCoverage);

/// The interval of the median between ranks k and n+1-k, or nothing if there are too few samples.
std::optional<Interval> median_interval(std::span<const double> samples, double coverage = kCoverage);

/// `a[i] / b[i]` round by round.
/// @throws std::invalid_argument if the lengths differ.
std::vector<double> ratios(std::span<const double> a, std::span<const double> b);

/// The interval of the median of the rounds' ratios; nothing if the rounds do not pair up or are too few.
std::optional<Interval> ratio_interval(std::span<const double> a, std::span<const double> b,
                                       double coverage = kCoverage);

/// Fills samples, median, interval, min, p05 and p95 from `samples_s`. A row whose status has no numbers
/// loses them.
void summarise(Record& record);

/// The speedup of a run of `ours` seconds over one of `theirs`; below 1 if it is slower.
double speedup(double ours, double theirs);

/// Fills gb_per_s (payload over median), copy_fraction (the cell's fastest ceiling over the row) and speedup
/// (the cell's fastest LibTorch method over the row), by the roles of the records. Rows without a median get
/// and give nothing.
void derive(std::vector<Record>& records);

}  // namespace stbench::reports
