#include "reports/statistics/probability.h"

#include <cmath>
#include <stdexcept>

namespace stbench::reports {
namespace {

constexpr double kTiny = 1e-300;

/// Returns `value`, or a tiny number in place of zero, which nothing can be divided by.
double divisor(double value) { return std::abs(value) < kTiny ? kTiny : value; }

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
double beta_fraction(double x, double a, double b) {
  constexpr int kMostTerms = 500;
  constexpr double kClose = 1e-15;
  double c = 1, d = 1 / divisor(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double step = 1;
    for (const double term : {even, odd}) {
      d = 1 / divisor(1 + term * d);
      c = divisor(1 + term / c);
      step = c * d;
      fraction *= step;
    }
    if (std::abs(step - 1) < kClose) break;
  }
  return fraction;
}

/// The regularised incomplete beta function I_x(a, b), x from 0 to 1. At both ends the logarithm is -infinity,
/// so the front is 0 and the result exact.
double incomplete_beta(double x, double a, double b) {
  const double log_front =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  if (x < (a + 1) / (a + b + 2)) return std::exp(log_front) * beta_fraction(x, a, b) / a;
  return 1 - std::exp(log_front) * beta_fraction(1 - x, b, a) / b;
}

/// From here on the asymptotic series below are good to 1e-15.
constexpr double kLarge = 12;

/// The x above 0 from which on a falling function is at most y.
template <typename Falling>
double where_at_most(double y, Falling falling) {
  double low = kTiny, high = 1;
  while (falling(high) > y && std::isfinite(high)) low = high, high *= 2;
  for (int step = 0; step < 2000 && high - low > 1e-14 * high; ++step) {
    const double middle = low + (high - low) / 2;
    (falling(middle) > y ? low : high) = middle;
  }
  return high;
}

}  // namespace

double normal_two_sided(double z) { return std::erfc(std::abs(z) / std::sqrt(2.0)); }

double student_two_sided(double t, double freedom) {
  constexpr double kAsGoodAsNormal = 1e8;
  if (!(freedom > 0)) throw std::invalid_argument("degrees of freedom are above 0");
  if (freedom >= kAsGoodAsNormal) return normal_two_sided(t);
  return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

double student_quantile(double p, double freedom) {
  if (!(p > 0 && p <= 1)) throw std::invalid_argument("a probability is above 0 and at most 1");
  return where_at_most(p, [&](double t) { return student_two_sided(t, freedom); });
}

double digamma(double x) {
  double sum = 0;
  for (; x < kLarge; ++x) sum -= 1 / x;
  const double square = 1 / (x * x);
  return sum + std::log(x) - 1 / (2 * x) -
         square *
             (1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square * (1.0 / 240 - square / 132))));
}

double trigamma(double x) {
  double sum = 0;
  for (; x < kLarge; ++x) sum += 1 / (x * x);
  const double square = 1 / (x * x);
  return sum + 1 / x + square / 2 +
         square / x *
             (1.0 / 6 - square * (1.0 / 30 - square * (1.0 / 42 - square * (1.0 / 30 - square * 5 / 66))));
}

double trigamma_inverse(double y) { return where_at_most(y, trigamma); }

}  // namespace stbench::reports
