/// Row movement by CUDA kernels, on the caller's stream and in place: a table may lie in device memory or in
/// pinned host memory, which the kernels read and write over the link without a staging copy.
///
/// Every pointer must be one that the device can use (unified addressing), the stream's device must be the
/// current one, and the calls return before the work is done. What is read and what is written must not
/// overlap.
///
/// Safe to capture in a CUDA graph: nothing is allocated and nothing waited for. A device's shape is asked
/// for at a kernel's first launch, so run a call of the same shape once before it is captured, as CUDA wishes
/// of any kernel (it loads them when they are first used).
///
/// These kernels compile and their arithmetic is tested on the host, thread by thread; they have not yet run
/// on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "speedtorch/kernels/cuda/launch.h"
#include "speedtorch/kernels/row_view.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace speedtorch::kernels {

/// out[i] = table[index[i]] for i in [0, count). An index that names no row is not followed: its row of `out`
/// gets all bits set (NaN in every floating-point type), and `launch.errors`, where given, tells of it.
/// @throws ShapeError as gather_rows; CudaError when the launch fails (errors of the run show up at a later
/// call).
void gather_rows_cuda(ConstRows table, const std::int32_t* index, std::int64_t count, Rows out,
                      CUstream_st* stream, const CudaLaunch& launch = {});
void gather_rows_cuda(ConstRows table, const std::int64_t* index, std::int64_t count, Rows out,
                      CUstream_st* stream, const CudaLaunch& launch = {});

/// table[index[i]] = values[i] for i in [0, count). A value whose index names no row is left out and reported
/// as above. Where the index repeats a row, it ends as an unspecified mix of its values.
/// @throws ShapeError as scatter_rows; CudaError as above.
void scatter_rows_cuda(ConstRows values, const std::int32_t* index, std::int64_t count, Rows table,
                       CUstream_st* stream, const CudaLaunch& launch = {});
void scatter_rows_cuda(ConstRows values, const std::int64_t* index, std::int64_t count, Rows table,
                       CUstream_st* stream, const CudaLaunch& launch = {});

/// Copies `bytes` between contiguous blocks by a kernel that reads and writes past the caches: the ceiling of
/// what the kernels above can reach over the same path, on at most `max_sms` multiprocessors where that is
/// not 0.
/// @throws ShapeError where `bytes` is negative; CudaError as above.
void stream_copy_cuda(std::byte* to, const std::byte* from, std::int64_t bytes, CUstream_st* stream,
                      int max_sms = 0);

}  // namespace speedtorch::kernels
