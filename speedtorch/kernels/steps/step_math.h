/// The arithmetic that the loops of each instruction set give to the bodies of updates.h.
#pragma once

#include <type_traits>

#include "speedtorch/kernels/host_device.h"

/// Whether the target that Highway's foreach_target compiles just now has an instruction that fuses.
#define SPEEDTORCH_FUSES_HERE ((HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM)

namespace speedtorch::kernels {

/// Of no instruction set, so that it can be inlined into the loops of each. Where there is no instruction for
/// it (`kFused` false), fusing would be a call of hundreds of cycles.
template <bool kFused>
struct StepMath {
  template <class T>
  static SPEEDTORCH_INLINE T mul_add(T a, T b, T c) {
    if constexpr (!kFused)
      return a * b + c;
    else if constexpr (std::is_same_v<T, float>)
      return __builtin_fmaf(a, b, c);
    else
      return __builtin_fma(a, b, c);
  }
  static SPEEDTORCH_INLINE float square_root(float a) { return __builtin_sqrtf(a); }
  static SPEEDTORCH_INLINE double square_root(double a) { return __builtin_sqrt(a); }
};

}  // namespace speedtorch::kernels
