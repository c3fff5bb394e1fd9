/// A step on flat buffers in device memory (or pinned host memory) by one launch, on the caller's stream. The
/// body is that of the host (updates.h) and is tested there, thread by thread; the kernel compiles and has
/// not yet run on a GPU.
#pragma once

#include "kernels/flat_tables.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace speedtorch::kernels {

/// Steps one run, as flat_step() does. Returns before the work is done; the stream's device must be the
/// current one. @throws CudaError when the launch fails
template <class T>
void flat_step_cuda(const FlatTables<T>& tables, const FlatRun<T>& run, const GradientChange& change,
                    bool zero, CUstream_st* stream);

}  // namespace speedtorch::kernels
