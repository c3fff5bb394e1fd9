// f16 and bf16: every value converted, and arithmetic against wider arithmetic that is exact before it is
// rounded.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "tests/emulated_gpu/ptx/half.h"
#include "tests/emulated_gpu/ptx/trial.h"

namespace emulated_gpu {
namespace {

using Bits = std::uint16_t;
using Wide = __float128;  // sums and products of halves are exact in it

Wide wide_half(Bits bits) { return static_cast<Wide>(from_bits<_Float16>(bits)); }
Wide wide_bfloat(Bits bits) { return static_cast<Wide>(from_bits<float>(std::uint64_t{bits} << 16)); }

Bits round_half(Wide value, Wide = 0) {
  if (value != value) return 0x7fff;
  return static_cast<Bits>(to_bits(static_cast<_Float16>(value)));
}

/// A wide value is rounded to bf16 by trying: the nearest of the candidates around its float. `rest` is what
/// a sum of far apart terms lost; it decides between two that are as near.
Bits round_bfloat(Wide value, Wide rest = 0) {
  if (value != value) return 0x7fff;
  const auto near = static_cast<float>(value);
  if (std::isinf(near)) return static_cast<Bits>(to_bits(near) >> 16);
  const auto low = static_cast<Bits>(to_bits(near) >> 16);
  Bits best = low;
  Wide distance = -1;
  for (int step = -1; step <= 2; ++step) {
    const auto candidate = static_cast<Bits>(low + step);
    if (((candidate ^ low) & 0x8000) != 0) continue;
    Wide of_candidate = wide_bfloat(candidate);
    if ((candidate & 0x7fff) == 0x7f80)
      of_candidate = static_cast<Wide>(std::ldexp(candidate & 0x8000 ? -1.0 : 1.0, 128));
    if (of_candidate != of_candidate) continue;
    Wide apart = of_candidate - value;
    if (apart < 0) apart = -apart;
    const bool preferred = rest == 0 ? candidate % 2 == 0 : (of_candidate > value) == (rest > 0);
    if (distance < 0 || apart < distance || (apart == distance && preferred)) {
      best = candidate;
      distance = apart;
    }
  }
  return best;
}

TEST(PtxHalf, EveryValueIsWidenedAndNarrowedAsTheCompilerDoes) {
  for (unsigned i = 0; i < 65536; ++i) {
    const auto bits = static_cast<Bits>(i);
    const auto half = static_cast<double>(from_bits<_Float16>(bits));
    const auto bfloat = static_cast<double>(from_bits<float>(std::uint64_t{bits} << 16));
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(widen(Half{bits})));
    } else {
      EXPECT_EQ(to_bits(widen(Half{bits})), to_bits(half)) << bits;
      EXPECT_EQ(narrow<Half>(half).bits, bits);
    }
    if (!std::isnan(bfloat)) {
      EXPECT_EQ(to_bits(widen(Bfloat{bits})), to_bits(bfloat)) << bits;
      EXPECT_EQ(narrow<Bfloat>(bfloat).bits, bits);
    }
  }
}

TEST(PtxHalf, FloatsAreRoundedToTheNearestHalf) {
  for (std::uint64_t bits = 0; bits <= 0xffffffff; bits += 65521) {
    const auto value = from_bits<float>(bits);
    ASSERT_EQ(narrow<Half>(value).bits, round_half(static_cast<Wide>(value))) << value;
    ASSERT_EQ(narrow<Bfloat>(value).bits, round_bfloat(static_cast<Wide>(value))) << value;
  }
}

template <class Widen, class Round>
void add_cases(std::vector<Case>& cases, const std::string& type, Widen widened, Round round) {
  const auto binary = [&](const std::string& name, auto function) {
    cases.push_back(binary_case<Bits, Bits>(
        name + "." + type, [=](Bits a, Bits b) { return round(function(widened(a), widened(b)), 0); }));
  };
  binary("add.rn", [](Wide a, Wide b) { return a + b; });
  binary("sub.rn", [](Wide a, Wide b) { return a - b; });
  binary("mul.rn", [](Wide a, Wide b) { return a * b; });
  cases.push_back(ternary_case<Bits, Bits>("fma.rn." + type, [=](Bits a, Bits b, Bits c) {
    const Wide product = widened(a) * widened(b), addend = widened(c), sum = product + addend;
    const Wide of_addend = sum - product;
    return round(sum, (product - (sum - of_addend)) + (addend - of_addend));
  }));
  cases.push_back(unary_case<Bits, Bits>("neg." + type, [](Bits a) { return a ^ 0x8000; }));
  cases.push_back(unary_case<Bits, Bits>("abs." + type, [](Bits a) { return a & 0x7fff; }));
  const auto pick = [=](bool least) {
    return [=](Bits a, Bits b) -> Bits {
      const auto x = widened(a), y = widened(b);
      if (x != x || y != y) return x != x ? (y != y ? Bits{0x7fff} : b) : a;
      const bool first = x == y ? (least == ((a & 0x8000) != 0)) : (x < y) == least;
      return first ? a : b;
    };
  };
  cases.push_back(binary_case<Bits, Bits>("min." + type, pick(true)));
  cases.push_back(binary_case<Bits, Bits>("max." + type, pick(false)));
}

TEST(PtxHalf, ArithmeticRoundsTheExactResultOnce) {
  std::vector<Case> cases;
  add_cases(cases, "f16", wide_half, round_half);
  add_cases(cases, "bf16", wide_bfloat, round_bfloat);
  expect_as_host(cases);
}

TEST(PtxHalf, PackedPairsAreTwoHalves) {
  const auto both = [](auto function) {
    return [=](std::uint32_t a, std::uint32_t b) {
      const auto low = function(static_cast<Bits>(a), static_cast<Bits>(b));
      const auto high = function(static_cast<Bits>(a >> 16), static_cast<Bits>(b >> 16));
      return static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16;
    };
  };
  using U = std::uint32_t;
  expect_as_host({
      binary_case<U, U>("add.rn.f16x2",
                        both([](Bits a, Bits b) { return round_half(wide_half(a) + wide_half(b)); })),
      binary_case<U, U>("mul.rn.bf16x2",
                        both([](Bits a, Bits b) { return round_bfloat(wide_bfloat(a) * wide_bfloat(b)); })),
      unary_case<U, U>("neg.f16x2", [](U a) { return a ^ 0x80008000; }),
      unary_case<U, U>("abs.bf16x2", [](U a) { return a & 0x7fff7fff; }),
  });
}

}  // namespace
}  // namespace emulated_gpu
