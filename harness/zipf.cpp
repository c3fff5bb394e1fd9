#include "harness/zipf.h"

#include <algorithm>
#include <cmath>

namespace stbench::harness {
namespace {

/// (exp(x) - 1) / x and log(1 + x) / x, which are 1 at 0: they keep the integral exact where the exponent is
/// near 1.
double expm1_over(double x) { return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }
double log1p_over(double x) { return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }

}  // namespace

Zipf::Zipf(std::int64_t count, double exponent)
    : count_(static_cast<double>(count)),
      exponent_(exponent),
      upper_(integral(count_ + 0.5)),
      lower_(integral(1.5) - 1),
      sure_(2 - integral_inverse(integral(2.5) - weight(2))) {}

std::int64_t Zipf::operator()(Random& random) const {
  for (;;) {
    const double area = upper_ + random.unit() * (lower_ - upper_);
    const double x = integral_inverse(area);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, count_);
    if (rank - x <= sure_ || area >= integral(rank + 0.5) - weight(rank))
      return static_cast<std::int64_t>(rank);
  }
}

double Zipf::weight(double x) const { return std::exp(-exponent_ * std::log(x)); }

double Zipf::integral(double x) const {
  const double log_x = std::log(x);
  return expm1_over((1 - exponent_) * log_x) * log_x;
}

double Zipf::integral_inverse(double y) const {
  // Rounding may take the argument of the logarithm just below its domain.
  const double t = std::max(-1.0, y * (1 - exponent_));
  return std::exp(log1p_over(t) * y);
}

}  // namespace stbench::harness
