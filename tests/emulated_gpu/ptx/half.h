/// Half precision: IEEE binary16 and bfloat16, rounded from double in one step, as the device rounds.
#pragma once

#include <cstdint>

namespace emulated_gpu {

enum class Rounding : std::uint8_t { nearest_even, toward_zero, down, up };

/// The bits of the nearest value with `fraction_bits` and `exponent_bits`; overflow is infinity, or the
/// largest value where the rounding is not away from zero. NaN is the canonical one of the device (all bits
/// but the sign).
std::uint16_t narrow_bits(double value, int exponent_bits, int fraction_bits, Rounding rounding);
double widen_bits(std::uint16_t bits, int exponent_bits, int fraction_bits);

struct Half {
  static constexpr int kExponentBits = 5, kFractionBits = 10;
  std::uint16_t bits = 0;
};

struct Bfloat {
  static constexpr int kExponentBits = 8, kFractionBits = 7;
  std::uint16_t bits = 0;
};

template <class Short>
double widen(Short value) {
  return widen_bits(value.bits, Short::kExponentBits, Short::kFractionBits);
}

template <class Short>
Short narrow(double value, Rounding rounding = Rounding::nearest_even) {
  return {narrow_bits(value, Short::kExponentBits, Short::kFractionBits, rounding)};
}

/// a + b and a * b + c as doubles rounded to odd: rounding those again to half precision rounds the exact
/// result once.
double add_to_odd(double a, double b);
double fma_to_odd(double a, double b, double c);

}  // namespace emulated_gpu
