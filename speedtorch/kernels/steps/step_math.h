/// The arithmetic that the host's loops pass to the bodies of updates.h, one per instruction set.
#pragma once

#include <type_traits>

#include "speedtorch/kernels/host_device.h"

/// True if the target that Highway's foreach_target currently compiles has a fused multiply-add.
#define SPEEDTORCH_FUSES_HERE ((HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM)

namespace speedtorch::kernels {

/// Has no target attribute, so that it can be inlined into the loops of each instruction set. Without the
/// instruction (`kFused` false), a fused multiply-add would be a call of hundreds of cycles.
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
