/// The operands of a step on parameters in one buffer. C++17, so that CUDA sources can include it.
#pragma once

#include <cstdint>
#include <limits>

#include "speedtorch/kernels/host_device.h"
#include "speedtorch/kernels/steps/updates.h"

namespace speedtorch::kernels {

/// All runs start and end at a multiple of this many elements, so that loops need no remainder and no two
/// threads write to one cache line. Buffers are aligned to 64 bytes.
constexpr std::int64_t kFlatUnit = 64;

/// The number of elements per partial sum of squares, and the number of partial sums for a buffer of n.
constexpr std::int64_t kSumBlock = 16384;
constexpr std::int64_t flat_sums(std::int64_t n) { return (n + kSumBlock - 1) / kSumBlock; }

enum class Half { none, bfloat16, float16 };

/// The non-overlapping buffers of one bucket. Half-precision parameters are updated in float32: `param` holds
/// the masters, `half_param` the parameters rounded from them, `half_grad` the gradients, and `grad` is null.
template <class T>
struct FlatTables {
  T* param;
  T* grad;
  T* states[kMostStates];  ///< as many as the update has
  Half half = Half::none;
  std::uint16_t* half_param = nullptr;
  std::uint16_t* half_grad = nullptr;
};

/// Elements [begin, end), multiples of kFlatUnit, that take step number `step` of an update.
template <class T>
struct FlatRun {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t step;  ///< from 1
  const AnyUpdate<T>* update;
};

/// Changes to each element of a gradient before the update, in this order, each rounded as a tensor operation
/// rounds it.
struct GradientChange {
  double inv_scale = 1;
  double max_value = std::numeric_limits<double>::infinity();  ///< of the magnitude
  double coefficient = 1;
};

/// The same values in the arithmetic of T.
template <class T>
struct Change {
  T inv_scale, most, coefficient;

  explicit Change(const GradientChange& change)
      : inv_scale(T(change.inv_scale)), most(T(change.max_value)), coefficient(T(change.coefficient)) {}

  SPEEDTORCH_INLINE T clamped(T grad) const {
    const T unscaled = grad * inv_scale;
    const T below = unscaled > most ? most : unscaled;  // NaN stays NaN
    return below < -most ? -most : below;
  }
  SPEEDTORCH_INLINE T of(T grad) const { return clamped(grad) * coefficient; }
};

/// The factor by which torch's clip_grad_norm_ multiplies gradients of this norm.
inline double clip_coefficient(double norm, double max_norm) {
  const double coefficient = max_norm / (norm + 1e-6);
  return coefficient > 1 ? 1 : coefficient;  // NaN stays NaN
}

}  // namespace speedtorch::kernels
