/// A step on flat buffers in device memory (or pinned host memory), on the caller's stream. The body is that
/// of the host (updates.h) and is tested there, thread by thread; the kernel compiles and has not yet run on
/// a GPU.
#pragma once

#include <cstdint>

#include "kernels/flat_tables.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace speedtorch::kernels {

/// Steps the runs as flat_step() does: by one launch for each 16 of one optimizer, and as a rule a bucket is
/// one run. Returns before the work is done; the stream's device must be the current one.
/// @param runs `count` of them
/// @throws CudaError when a launch fails
template <class T>
void flat_step_cuda(const FlatTables<T>& tables, const FlatRun<T>* runs, std::int64_t count,
                    const GradientChange& change, bool zero, CUstream_st* stream);

}  // namespace speedtorch::kernels
