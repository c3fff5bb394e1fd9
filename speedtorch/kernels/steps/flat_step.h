/// One optimizer step on parameters that lie in one buffer: each parameter, its gradient and its states read
/// and written once, in one pass. What is done to the gradient before (unscale, clip) and after (zero) is in
/// the same pass; a norm takes one more over the gradients.
#pragma once

#include <cstdint>
#include <span>

#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/steps/flat_tables.h"

namespace speedtorch::kernels {

/// Steps the runs, which ascend and do not overlap; `zero`: and their gradients are zero afterwards.
/// Allocates nothing; the result does not depend on the threads.
template <class T>
void flat_step(const FlatTables<T>& tables, std::span<const FlatRun<T>> runs, const GradientChange& change,
               bool zero, ParallelFor parallel_for);

/// The sum of the squares of the first n gradients (a multiple of kFlatUnit), unscaled and clamped as
/// `change` says (its coefficient is not applied), in double precision. It does not depend on the threads; on
/// the instruction set only for T = double. Not finite where a gradient is not.
/// @param sums flat_sums(n) numbers of scratch
template <class T>
double flat_square_sum(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                       double* sums, ParallelFor parallel_for);

}  // namespace speedtorch::kernels
