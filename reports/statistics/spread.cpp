#include "reports/statistics/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "reports/statistics/probability.h"

namespace stbench::reports {
namespace {

/// No time is known better than to a thousandth; without a floor, values that are equal by chance (or by a
/// coarse clock) would make the law of the variances look endlessly wide.
constexpr double kLeastVariance = 1e-6;
constexpr std::size_t kFewestRows = 3;  // for a law of variances

double variance_of(const Scatter& row) { return std::max(row.squares / row.freedom, kLeastVariance); }

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void Scatter::add(std::span<const double> values) {
  if (values.size() < 2) return;
  const double mean = mean_of(values);
  for (const double value : values) squares += (value - mean) * (value - mean);
  freedom += static_cast<double>(values.size() - 1);
}

void Scatter::add(double deviation, double degrees) {
  squares += deviation * deviation * degrees;
  freedom += degrees;
}

SpreadPrior spread_prior(std::span<const Scatter> rows) {
  std::vector<double> logs, noise;
  for (const Scatter& row : rows) {
    if (!(row.freedom > 0)) continue;
    const double half = row.freedom / 2;
    logs.push_back(std::log(variance_of(row)) - digamma(half) + std::log(half));
    noise.push_back(trigamma(half));
  }
  if (logs.size() < kFewestRows) return {};
  Scatter differing;
  differing.add(logs);
  const double excess = differing.squares / differing.freedom - mean_of(noise);
  if (!(excess > 0)) return {std::exp(mean_of(logs)), std::numeric_limits<double>::infinity()};
  const double half = trigamma_inverse(excess);
  return {std::exp(mean_of(logs) + digamma(half) - std::log(half)), 2 * half};
}

std::optional<Spread> spread_of(const Scatter& row, const SpreadPrior& prior) {
  const double freedom = row.freedom + prior.freedom;
  if (!(freedom > 0)) return std::nullopt;
  if (std::isinf(prior.freedom)) return Spread{std::sqrt(prior.variance), prior.freedom};
  const double own = row.freedom > 0 ? variance_of(row) * row.freedom : 0;
  return Spread{std::sqrt((prior.variance * prior.freedom + own) / freedom), freedom};
}

}  // namespace stbench::reports
