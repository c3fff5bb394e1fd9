/// Moves rows by CUDA kernels, on the caller's stream and in place. A table may be in device memory or in
/// pinned host memory, which the kernels read and write over the link without a staging copy.
///
/// Every pointer must be usable on the device (unified addressing), and the stream's device must be current.
/// The calls return before the work is done. Source and destination must not overlap.
///
/// The calls can be captured in a CUDA graph: they allocate nothing and wait for nothing. Run a call of the
/// same shape once before the capture, because a kernel's first launch asks for the device's shape and loads
/// the kernel.
///
/// These kernels compile, and their arithmetic is tested on the host, thread by thread. They have not yet run
/// on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "speedtorch/kernels/cuda/launch.h"
#include "speedtorch/kernels/row_view.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace speedtorch::kernels {

/// out[i] = table[index[i]] for i in [0, count); int32 or int64 indices. An invalid index is not followed:
/// its row of `out` gets all bits set (NaN in every floating-point type), and `launch.errors`, if given,
/// counts it.
/// @throws ShapeError as gather_rows; CudaError if the launch fails (errors of the run appear at a later
/// call)
template <class Index>
void gather_rows_cuda(ConstRows table, const Index* index, std::int64_t count, Rows out, CUstream_st* stream,
                      const CudaLaunch& launch = {});

/// table[index[i]] = values[i] for i in [0, count). The value of an invalid index is left out and counted
/// likewise. A row that the index repeats ends as an unspecified mix of its values.
/// @throws ShapeError as scatter_rows; CudaError as above
template <class Index>
void scatter_rows_cuda(ConstRows values, const Index* index, std::int64_t count, Rows table,
                       CUstream_st* stream, const CudaLaunch& launch = {});

/// Copies `bytes` between contiguous blocks by a kernel that bypasses the caches: the ceiling for the kernels
/// above over the same path. Uses at most `max_sms` multiprocessors unless that is 0.
/// @throws ShapeError if `bytes` is negative; CudaError as above
void stream_copy_cuda(std::byte* to, const std::byte* from, std::int64_t bytes, CUstream_st* stream,
                      int max_sms = 0);

}  // namespace speedtorch::kernels
