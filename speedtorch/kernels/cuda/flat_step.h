/// A step on flat buffers in device memory (or pinned host memory) and the sums for their norm, on the
/// caller's stream. What a thread does (flat_lane.h) is tested on the host, thread by thread; the kernels
/// compile and have not yet run on a GPU.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/steps/flat_tables.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace speedtorch::kernels {

/// Steps the runs as flat_step() does: by one launch for each 16 of one optimizer, and as a rule a bucket is
/// one run. Returns before the work is done; the stream's device must be the current one.
/// @param runs `count` of them
/// @throws CudaError when a launch fails
template <class T>
void flat_step_cuda(const FlatTables<T>& tables, const FlatRun<T>* runs, std::int64_t count,
                    const GradientChange& change, bool zero, CUstream_st* stream);

/// The squares of the first n gradients (a multiple of kFlatUnit), unscaled and clamped as `change` says (its
/// coefficient is not applied), added up in double precision: each block's sum is the same on any device.
/// Returns before the work is done, likewise.
/// @param sums room for flat_sums(n) numbers that the device can write
/// @throws CudaError when the launch fails
template <class T>
void flat_square_sums_cuda(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                           double* sums, CUstream_st* stream);

}  // namespace speedtorch::kernels
