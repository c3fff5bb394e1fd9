/// One optimizer step on parameters that lie in one buffer: each parameter, its gradient and its states read
/// and written once, in one pass. What is done to the gradient before (unscale, clip) and after (zero) is in
/// the same pass; a norm takes one more over the gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "kernels/parallel.h"
#include "kernels/updates.h"

namespace speedtorch::kernels {

/// All that is stepped begins and ends at a multiple of so many elements, so that no loop has a rest and no
/// two threads write to one cache line. Buffers begin at a multiple of 64 bytes.
constexpr std::int64_t kFlatUnit = 64;

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

/// The factor by which torch's clip_grad_norm_ multiplies gradients of this norm.
SPEEDTORCH_INLINE double clip_coefficient(double norm, double max_norm) {
  const double coefficient = max_norm / (norm + 1e-6);
  return coefficient > 1 ? 1 : coefficient;  // not a number stays that
}

/// Steps the runs, which ascend and do not overlap; `zero`: and their gradients are zero afterwards.
/// Allocates nothing; the result does not depend on the threads.
template <class T>
void flat_step(const FlatTables<T>& tables, std::span<const FlatRun<T>> runs, const GradientChange& change,
               bool zero, ParallelFor parallel_for);

/// How many partial sums flat_square_sum() needs for a buffer of n elements.
std::int64_t flat_sums(std::int64_t n);

/// The sum of the squares of the first n gradients (a multiple of kFlatUnit), unscaled and clamped as
/// `change` says (its coefficient is not applied), in double precision. It does not depend on the threads; on
/// the instruction set only for T = double. Not finite where a gradient is not.
/// @param sums flat_sums(n) numbers of scratch
template <class T>
double flat_square_sum(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                       double* sums, ParallelFor parallel_for);

}  // namespace speedtorch::kernels
