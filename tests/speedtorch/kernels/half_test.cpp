// Half precision against its definition: sign * fraction * 2^exponent by ldexp, and rounding by a search
// among the neighbours.

#include "speedtorch/kernels/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace speedtorch::kernels {
namespace {

/// The number of 16 bits with that many bits of fraction.
double number_of(unsigned bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = static_cast<int>((bits & 0x7fffU) >> fraction_bits);
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + std::ldexp(1, fraction_bits), exponent - bias - fraction_bits);
}

/// The nearer of the two neighbours of |value|; of two equally near ones, the even one.
unsigned nearest(double value, int fraction_bits) {
  const double magnitude = std::abs(value);
  const unsigned infinity = ((1U << (15 - fraction_bits)) - 1) << fraction_bits;
  unsigned low = 0;
  unsigned high = infinity;  // the bits of non-negative numbers ascend as the numbers do
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (number_of(middle, fraction_bits) <= magnitude ? low : high) = middle;
  }
  const double below = number_of(low, fraction_bits);
  // Above the largest number, the next one would be as far away as the one below, were it not for infinity.
  const double above =
      high == infinity ? below + (below - number_of(low - 1, fraction_bits)) : number_of(high, fraction_bits);
  const double from_below = magnitude - below;
  const double from_above = above - magnitude;
  const bool up = from_above < from_below || (from_above == from_below && (high & 1U) == 0);
  return (up ? high : low) | (std::signbit(value) ? 0x8000U : 0);
}

template <class Half>
class HalfTest : public ::testing::Test {
 protected:
  static constexpr int kFraction = std::is_same_v<Half, Float16> ? 10 : 7;

  static void check_narrow(float value) {
    const unsigned found = Half::narrow(value);
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(number_of(found, kFraction)));
    else
      ASSERT_EQ(found, nearest(static_cast<double>(value), kFraction)) << value;
  }
};
using Halves = ::testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, WidensAndNarrowsEveryValue) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float wide = TypeParam::widen(static_cast<std::uint16_t>(bits));
    const double wanted = number_of(bits, TestFixture::kFraction);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(number_of(TypeParam::narrow(wide), TestFixture::kFraction))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(wide), wanted) << bits;
      ASSERT_EQ(TypeParam::narrow(wide), bits);
    }
  }
}

TYPED_TEST(HalfTest, NumbersBetweenAreRoundedToTheNearest) {
  std::mt19937 random(1);
  for (int k = 0; k < 200'000; ++k) this->check_narrow(float_of(static_cast<std::uint32_t>(random())));
  for (unsigned bits = 0; bits < 0x7f80; bits += 3) {  // halfway between two, and next to that
    const double middle =
        (number_of(bits, TestFixture::kFraction) + number_of(bits + 1, TestFixture::kFraction)) / 2;
    const auto value = static_cast<float>(middle);
    if (!std::isfinite(value)) continue;
    for (const float at : {value, std::nextafter(value, 0.0F), std::nextafter(value, INFINITY), -value})
      this->check_narrow(at);
  }
  for (const float at : {0.0F, -0.0F, 65504.0F, 65519.9F, 65520.0F, 1e30F, INFINITY, -INFINITY, NAN, 1e-40F,
                         5.9604645e-8F, 2.9802322e-8F, 2.9802326e-8F})
    this->check_narrow(at);
}

}  // namespace
}  // namespace speedtorch::kernels
