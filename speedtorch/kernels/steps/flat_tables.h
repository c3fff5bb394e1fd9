/// The operands of a step on parameters that lie in one buffer. C++17, so that CUDA sources can include it.
#pragma once

#include <cstdint>
#include <limits>

#include "speedtorch/kernels/host_device.h"
#include "speedtorch/kernels/steps/updates.h"

namespace speedtorch::kernels {

/// All that is stepped begins and ends at a multiple of so many elements, so that no loop has a rest and no
/// two threads write to one cache line. Buffers begin at a multiple of 64 bytes.
constexpr std::int64_t kFlatUnit = 64;

/// Elements whose squares make one partial sum; how many there are for a buffer of n.
constexpr std::int64_t kSumBlock = 16384;
constexpr std::int64_t flat_sums(std::int64_t n) { return (n + kSumBlock - 1) / kSumBlock; }

enum class Half { none, bfloat16, float16 };

/// The buffers of one bucket, none of which share a byte. Of parameters of half precision, whose update is
/// done in float32, `param` is the masters, and the parameters themselves are `half_param`, rounded from
/// them; their gradients are `half_grad`, and `grad` is null.
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

/// What is done to each element of a gradient before the update sees it, in this order, each rounded as a
/// tensor operation rounds it.
struct GradientChange {
  double inv_scale = 1;
  double max_value = std::numeric_limits<double>::infinity();  ///< of the magnitude
  double coefficient = 1;
};

/// The same in the arithmetic of T.
template <class T>
struct Change {
  T inv_scale, most, coefficient;

  explicit Change(const GradientChange& change)
      : inv_scale(T(change.inv_scale)), most(T(change.max_value)), coefficient(T(change.coefficient)) {}

  SPEEDTORCH_INLINE T clamped(T grad) const {
    const T unscaled = grad * inv_scale;
    const T below = unscaled > most ? most : unscaled;  // what is not a number stays that
    return below < -most ? -most : below;
  }
  SPEEDTORCH_INLINE T of(T grad) const { return clamped(grad) * coefficient; }
};

/// The factor by which torch's clip_grad_norm_ multiplies gradients of this norm.
inline double clip_coefficient(double norm, double max_norm) {
  const double coefficient = max_norm / (norm + 1e-6);
  return coefficient > 1 ? 1 : coefficient;  // not a number stays that
}

}  // namespace speedtorch::kernels
