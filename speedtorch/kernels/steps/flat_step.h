/// One optimizer step on parameters in one buffer. A single pass reads and writes each parameter, its
/// gradient and its states once, and also unscales, clips and zeros the gradient. A norm needs another pass
/// over the gradients.
#pragma once

#include <cstdint>
#include <span>

#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/steps/flat_tables.h"

namespace speedtorch::kernels {

/// Steps the runs, which are ascending and do not overlap. `zero` also zeros their gradients. Allocates
/// nothing. The result does not depend on the number of threads.
template <class T>
void flat_step(const FlatTables<T>& tables, std::span<const FlatRun<T>> runs, const GradientChange& change,
               bool zero, ParallelFor parallel_for);

/// The sum of squares, in double precision, of the first n gradients (a multiple of kFlatUnit), unscaled and
/// clamped by `change` (its coefficient is ignored). It does not depend on the number of threads, and on the
/// instruction set only for T = double. Not finite if a gradient is not.
/// @param sums flat_sums(n) numbers of scratch memory
template <class T>
double flat_square_sum(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                       double* sums, ParallelFor parallel_for);

}  // namespace speedtorch::kernels
