/// A step on flat buffers in device memory (or pinned host memory), and the sums for their norm, on the
/// caller's stream. The work of a thread (flat_lane.h) is tested on the host, thread by thread. The kernels
/// compile and have not yet run on a GPU.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/steps/flat_tables.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace speedtorch::kernels {

/// Steps the runs as flat_step() does, with one launch per 16 runs of one optimizer; usually a bucket is one
/// run. Returns before the work is done. The stream's device must be current.
/// @param runs `count` of them
/// @throws CudaError if a launch fails
template <class T>
void flat_step_cuda(const FlatTables<T>& tables, const FlatRun<T>* runs, std::int64_t count,
                    const GradientChange& change, bool zero, CUstream_st* stream);

/// The sums of squares, in double precision, of the first n gradients (a multiple of kFlatUnit), unscaled and
/// clamped by `change` (its coefficient is ignored). Each block's sum is the same on any device. Returns
/// before the work is done.
/// @param sums flat_sums(n) numbers that the device can write
/// @throws CudaError if the launch fails
template <class T>
void flat_square_sums_cuda(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                           double* sums, CUstream_st* stream);

}  // namespace speedtorch::kernels
