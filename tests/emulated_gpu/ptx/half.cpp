#include "tests/emulated_gpu/ptx/half.h"

#include <bit>
#include <cmath>
#include <limits>

namespace emulated_gpu {
namespace {

/// Whether the magnitude goes up, given what is cut off (in units of the last place, 0 <= rest < 1).
bool rounds_away(Rounding rounding, bool negative, bool odd, double rest) {
  switch (rounding) {
    case Rounding::nearest_even:
      return rest > 0.5 || (rest == 0.5 && odd);
    case Rounding::toward_zero:
      return false;
    case Rounding::down:
      return negative && rest > 0;
    case Rounding::up:
      return !negative && rest > 0;
  }
  return false;
}

/// `sum` is the rounded result and `error` what is missing: makes the last bit odd where something is
/// missing.
double to_odd(double sum, double error) {
  if (error == 0 || !std::isfinite(sum)) return sum;
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (bits & 1) return sum;
  const bool grows = (error > 0) == (sum > 0);
  bits = grows ? bits + 1 : bits - 1;
  return std::bit_cast<double>(bits);
}

}  // namespace

std::uint16_t narrow_bits(double value, int exponent_bits, int fraction_bits, Rounding rounding) {
  if (std::isnan(value)) return 0x7fff;
  const bool negative = std::signbit(value);
  const auto sign = static_cast<std::uint16_t>(negative ? 0x8000 : 0);
  const auto infinity = static_cast<std::uint32_t>(((1 << exponent_bits) - 1) << fraction_bits);
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  if (magnitude == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  const double units = std::ldexp(magnitude, fraction_bits - exponent);  // exact: a shift
  auto whole = static_cast<std::uint32_t>(units);
  whole += rounds_away(rounding, negative, whole & 1, units - whole);
  // The carry of a fraction into the exponent is what rounding up to the next power of two is.
  const auto biased = static_cast<std::uint32_t>(exponent + bias - 1) << fraction_bits;
  std::uint64_t bits = static_cast<std::uint64_t>(biased) + whole;
  if (bits >= infinity) {
    const bool to_infinity = rounding == Rounding::nearest_even || (rounding == Rounding::down && negative) ||
                             (rounding == Rounding::up && !negative);
    bits = to_infinity ? infinity : infinity - 1;
  }
  return static_cast<std::uint16_t>(sign | bits);
}

double widen_bits(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  double magnitude = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude =
        fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    magnitude = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  const double error = (a - (sum - of_b)) + (b - of_b);
  return to_odd(sum, error);
}

double fma_to_odd(double a, double b, double c) { return add_to_odd(a * b, c); }

}  // namespace emulated_gpu
