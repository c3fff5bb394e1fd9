/// The arithmetic that the CUDA kernels pass to the bodies of updates.h. C++17, and no CUDA header.
#pragma once

#include <cmath>

#include "speedtorch/kernels/host_device.h"

namespace speedtorch::kernels {

/// Fuses where the bodies ask for it and (compiled with -fmad=false) nowhere else.
struct FusedMath {
  static SPEEDTORCH_INLINE float mul_add(float a, float b, float c) { return ::fmaf(a, b, c); }
  static SPEEDTORCH_INLINE double mul_add(double a, double b, double c) { return ::fma(a, b, c); }
  static SPEEDTORCH_INLINE float square_root(float a) { return ::sqrtf(a); }
  static SPEEDTORCH_INLINE double square_root(double a) { return ::sqrt(a); }
};

}  // namespace speedtorch::kernels
