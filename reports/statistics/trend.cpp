#include "reports/statistics/trend.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "reports/statistics/probability.h"
#include "reports/statistics/statistics.h"

namespace stbench::reports {
namespace {

constexpr std::size_t kFewestForATrend = 3;

double theil_sen(std::span<const double> series) {
  std::vector<double> slopes;
  for (std::size_t j = 1; j < series.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i)
      slopes.push_back((series[j] - series[i]) / static_cast<double>(j - i));
  }
  return median(slopes);
}

/// Pairs whose later number is larger, less those whose later number is smaller.
double kendall_sum(std::span<const double> series) {
  double sum = 0;
  for (std::size_t j = 1; j < series.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i)
      sum += (series[j] > series[i] ? 1 : 0) - (series[j] < series[i] ? 1 : 0);
  }
  return sum;
}

/// The variance of the sum over independent numbers. Equal ones lower it.
double independent_variance(std::span<const double> series) {
  const auto term = [](double n) { return n * (n - 1) * (2 * n + 5) / 18; };
  std::map<double, double> counts;
  for (const double value : series) ++counts[value];
  double variance = term(static_cast<double>(series.size()));
  for (const auto& [value, count] : counts) variance -= term(count);
  return variance;
}

/// How much larger the variance is if the numbers' correlation falls from neighbour to neighbour by `memory`.
double inflation(std::size_t length, double memory) {
  const auto n = static_cast<double>(length);
  double sum = 0;
  for (double lag = 1; lag < n - 2; ++lag) {
    const double of_ranks = 6 / std::numbers::pi * std::asin(std::pow(memory, lag) / 2);
    sum += (n - lag) * (n - lag - 1) * (n - lag - 2) * of_ranks;
  }
  return 1 + 2 / (n * (n - 1) * (n - 2)) * sum;
}

}  // namespace

Trend trend_of(std::span<const double> series, double memory) {
  if (series.size() < kFewestForATrend) return {};
  const double variance = independent_variance(series) * inflation(series.size(), memory);
  const double sum = kendall_sum(series);
  const double distance = std::max(0.0, std::abs(sum) - 1);  // the sums are two apart
  return {theil_sen(series), variance > 0 ? normal_two_sided(distance / std::sqrt(variance)) : 1};
}

std::vector<double> without_trend(std::span<const double> series) {
  std::vector<double> rest(series.begin(), series.end());
  const double slope = trend_of(series).slope;
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= slope * static_cast<double>(i);
  return rest;
}

}  // namespace stbench::reports
