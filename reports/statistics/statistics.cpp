#include "reports/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "reports/group.h"
#include "reports/statistics/role.h"

namespace stbench::reports {
namespace {

/// In a total order: a NaN in a damaged report must not break the sort.
std::vector<double> sorted(std::span<const double> samples) {
  if (samples.empty()) throw std::invalid_argument("no samples");
  std::vector<double> copy(samples.begin(), samples.end());
  std::sort(copy.begin(), copy.end(), [](double a, double b) { return std::is_lt(std::strong_order(a, b)); });
  return copy;
}

/// NumPy's own formula, so that both agree to the last bit.
double interpolated(double a, double b, double t) {
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

double median_of_sorted(const std::vector<double>& samples) {
  const std::size_t n = samples.size();
  return n % 2 == 1 ? samples[n / 2] : std::midpoint(samples[n / 2 - 1], samples[n / 2]);
}

double quantile_of_sorted(const std::vector<double>& samples, double q) {
  const double position = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 == samples.size()) return samples[below];
  return interpolated(samples[below], samples[below + 1], position - static_cast<double>(below));
}

std::optional<Interval> interval_of_sorted(const std::vector<double>& samples, double coverage) {
  const auto rank = interval_rank(samples.size(), coverage);
  if (!rank) return std::nullopt;
  return Interval{samples[*rank - 1], samples[samples.size() - *rank]};
}

/// P(B = k) for B ~ Binomial(n, 1/2).
double binomial(std::size_t n, std::size_t k) {
  const auto log_factorial = [](std::size_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  const double log_choices = log_factorial(n) - log_factorial(k) - log_factorial(n - k);
  return std::exp(log_choices - static_cast<double>(n) * std::log(2.0));
}

/// The smallest median among the rows that `counts` accepts.
template <typename Counts>
std::optional<double> fastest(const std::vector<Record*>& cell, Counts counts) {
  std::optional<double> best;
  for (const Record* record : cell) {
    if (has_numbers(record->status) && record->median_s && counts(*record)) {
      best = std::min(best.value_or(std::numeric_limits<double>::infinity()), *record->median_s);
    }
  }
  return best;
}

/// Nothing if the quotient says nothing: no time, or one so short that the clock gave zero.
std::optional<double> quotient(std::optional<double> a, double b) {
  if (!a || !(*a / b > 0) || !std::isfinite(*a / b)) return std::nullopt;
  return *a / b;
}

void derive_row(Record& record, std::optional<double> ceiling, std::optional<double> libtorch) {
  record.gb_per_s = record.copy_fraction = record.speedup = std::nullopt;
  if (!has_numbers(record.status) || !record.median_s) return;
  constexpr double kBytesPerGb = 1e9;
  const double median_s = *record.median_s;
  record.gb_per_s = quotient(static_cast<double>(record.payload_bytes) / kBytesPerGb, median_s);
  record.copy_fraction = quotient(ceiling, median_s);
  record.speedup = quotient(libtorch, median_s);
}

}  // namespace

double median(std::span<const double> samples) { return median_of_sorted(sorted(samples)); }

double quantile(std::span<const double> samples, double q) {
  if (!(q >= 0 && q <= 1)) throw std::invalid_argument("a quantile is from 0 to 1");
  return quantile_of_sorted(sorted(samples), q);
}

std::optional<std::size_t> interval_rank(std::size_t n, double coverage) {
  constexpr double kRounding = 1e-12;  // of the sum below, so that an exact match counts
  double covered = 0;
  for (std::size_t k = n / 2; k >= 1; --k) {  // from the middle outwards: the far terms underflow for large n
    covered += binomial(n, k) * (k == n - k ? 1 : 2);
    if (covered >= coverage - kRounding) return k;
  }
  return std::nullopt;
}

std::optional<Interval> median_interval(std::span<const double> samples, double coverage) {
  return samples.empty() ? std::nullopt : interval_of_sorted(sorted(samples), coverage);
}

std::vector<double> ratios(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) throw std::invalid_argument("rounds that do not pair up");
  std::vector<double> quotients(a.size());
  std::transform(a.begin(), a.end(), b.begin(), quotients.begin(), std::divides<>());
  return quotients;
}

std::optional<Interval> ratio_interval(std::span<const double> a, std::span<const double> b,
                                       double coverage) {
  if (a.size() != b.size()) return std::nullopt;
  return median_interval(ratios(a, b), coverage);
}

void summarise(Record& record) {
  record.median_s = record.ci_low_s = record.ci_high_s = record.min_s = record.p05_s = record.p95_s =
      std::nullopt;
  if (!has_numbers(record.status)) record.samples_s.clear();
  record.samples = static_cast<std::int64_t>(record.samples_s.size());
  if (record.samples_s.empty()) return;
  constexpr double kLowTail = 0.05;
  constexpr double kHighTail = 0.95;
  const std::vector<double> samples = sorted(record.samples_s);
  record.median_s = median_of_sorted(samples);
  record.min_s = samples.front();
  record.p05_s = quantile_of_sorted(samples, kLowTail);
  record.p95_s = quantile_of_sorted(samples, kHighTail);
  if (const auto interval = interval_of_sorted(samples, kCoverage)) {
    record.ci_low_s = interval->low;
    record.ci_high_s = interval->high;
  }
}

double speedup(double ours, double theirs) { return theirs / ours; }

void derive(std::vector<Record>& records) {
  for (const auto& cell : group_without(pointers_to(records), {"method"})) {
    const auto ceiling = fastest(cell, is_ceiling);
    const auto libtorch = fastest(cell, is_libtorch);
    for (Record* record : cell) derive_row(*record, ceiling, libtorch);
  }
}

}  // namespace stbench::reports
