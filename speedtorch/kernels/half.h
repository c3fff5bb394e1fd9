/// Half-precision numbers as 16 bits. Widening to float32 is exact; narrowing rounds to nearest, ties to
/// even. Uses only integer operations and selects, so that compilers vectorise the loops for any instruction
/// set. C++17, so that CUDA sources can include it.
#pragma once

#include <cstdint>
#include <cstring>

#include "speedtorch/kernels/host_device.h"

namespace speedtorch::kernels {

SPEEDTORCH_INLINE std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

SPEEDTORCH_INLINE float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The upper half of a float32.
struct Bfloat16 {
  static SPEEDTORCH_INLINE float widen(std::uint16_t half) {
    return float_of(static_cast<std::uint32_t>(half) << 16);
  }
  static SPEEDTORCH_INLINE std::uint16_t narrow(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
  }
};

/// 5 bits of exponent, 10 of fraction.
struct Float16 {
  static SPEEDTORCH_INLINE float widen(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7fffU;
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t normal = (magnitude << 13) + kBias;
    const std::uint32_t special = (magnitude << 13) | 0x7f800000U;  // infinity or NaN
    const std::uint32_t subnormal = bits_of(static_cast<float>(static_cast<int>(magnitude)) * 0x1p-24F);
    return float_of(sign | (magnitude >= 0x7c00U ? special : magnitude < 0x400U ? subnormal : normal));
  }
  static SPEEDTORCH_INLINE std::uint16_t narrow(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - kBias) >> 13;
    // 0.5 has units of 2^-24, as subnormal halves have, so the addition rounds to them.
    const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
    const std::uint32_t finite = magnitude < kLeastNormal ? subnormal : normal;
    const std::uint32_t limited = magnitude >= kOverflow ? 0x7c00U : finite;
    const std::uint32_t number = magnitude > 0x7f800000U ? 0x7e00U : limited;
    return static_cast<std::uint16_t>(number | ((bits >> 16) & 0x8000U));
  }

 private:
  static constexpr std::uint32_t kBias = 112U << 23;          // between the biases, 127 and 15
  static constexpr std::uint32_t kLeastNormal = 0x38800000U;  // 2^-14
  static constexpr std::uint32_t kOverflow = 0x47800000U;     // 2^16
};

}  // namespace speedtorch::kernels
