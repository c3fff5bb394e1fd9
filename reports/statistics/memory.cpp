#include "reports/statistics/memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stbench::reports {
namespace {

constexpr std::size_t kShortest = 3;
constexpr double kMostMemory = 0.99;

struct LagOne {
  double products = 0;  ///< of neighbours
  double squares = 0;
};

LagOne seen_in(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  LagOne sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums.squares += (values[i] - mean) * (values[i] - mean);
    if (i > 0) sums.products += (values[i] - mean) * (values[i - 1] - mean);
  }
  return sums;
}

/// The mean correlation of two sets of places.
double mean_correlation(double memory, std::span<const double> one, std::span<const double> other) {
  double sum = 0;
  for (const double a : one) {
    for (const double b : other) sum += std::pow(memory, std::abs(a - b));
  }
  return sum / static_cast<double>(one.size() * other.size());
}

/// The mean of seen_in() for a series of variance 1.
LagOne expected(double memory, std::size_t length) {
  std::vector<double> places(length);
  std::iota(places.begin(), places.end(), 0.0);
  const double overall = mean_correlation(memory, places, places);
  const auto own = [&](std::size_t i) {  // the correlation of one value with the mean
    return mean_correlation(memory, std::span(places).subspan(i, 1), places);
  };
  LagOne sums;
  for (std::size_t i = 0; i < length; ++i) {
    sums.squares += 1 - 2 * own(i) + overall;
    if (i > 0) sums.products += memory - own(i) - own(i - 1) + overall;
  }
  return sums;
}

}  // namespace

double memory_of(std::span<const std::vector<double>> series) {
  LagOne seen;
  std::vector<std::size_t> counts;  // of the series of each length
  for (const auto& values : series) {
    if (values.size() < kShortest) continue;
    const LagOne one = seen_in(values);
    seen.products += one.products, seen.squares += one.squares;
    counts.resize(std::max(counts.size(), values.size() + 1));
    ++counts[values.size()];
  }
  if (!(seen.squares > 0)) return 0;
  const auto shown = [&](double memory) {
    LagOne sums;
    for (std::size_t length = kShortest; length < counts.size(); ++length) {
      if (counts[length] == 0) continue;
      const LagOne one = expected(memory, length);
      sums.products += static_cast<double>(counts[length]) * one.products;
      sums.squares += static_cast<double>(counts[length]) * one.squares;
    }
    return sums.products / sums.squares;
  };
  const double target = seen.products / seen.squares;
  double low = 0, high = kMostMemory;
  if (shown(low) >= target) return low;
  if (shown(high) <= target) return high;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (shown(middle) < target ? low : high) = middle;
  }
  return low;
}

double variance_inflation(double memory, std::span<const double> base, std::span<const double> now) {
  if (base.size() < kShortest || now.size() < kShortest) return 1;
  const double within_base = mean_correlation(memory, base, base),
               within_now = mean_correlation(memory, now, now);
  const double difference = within_base + within_now - 2 * mean_correlation(memory, base, now);
  // Without memory these are 1 - 1/n each, and the variance of the difference is the sum of 1/n.
  const auto n = static_cast<double>(base.size()), m = static_cast<double>(now.size());
  const double seen = (n * (1 - within_base) + m * (1 - within_now)) / (n + m - 2);
  return seen > 0 ? std::max(1.0, difference / (seen * (1 / n + 1 / m))) : 1;
}

}  // namespace stbench::reports
