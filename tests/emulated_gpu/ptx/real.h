/// Options of floating-point instructions, as an instruction's `variant` holds them.
#pragma once

#include <cstdint>

#include "tests/emulated_gpu/ptx/half.h"

namespace emulated_gpu {

constexpr std::uint8_t kRoundingBits = 3;  ///< a Rounding
constexpr std::uint8_t kFlush = 4;         ///< subnormal inputs and results become zero
constexpr std::uint8_t kSaturate = 8;      ///< to [0, 1]; NaN becomes 0
constexpr std::uint8_t kRelu = 16;         ///< negative results become 0
constexpr std::uint8_t kPropagateNan = 32;

inline Rounding rounding_of(std::uint8_t variant) { return static_cast<Rounding>(variant & kRoundingBits); }

/// The host's rounding of this thread while it lives.
class HostRounding {
 public:
  explicit HostRounding(Rounding rounding);
  ~HostRounding();
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  int before_;
};

}  // namespace emulated_gpu
