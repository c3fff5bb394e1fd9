/// The fused sparse step (sparse_step.h) on a GPU: tables in its memory, or in pinned memory over the link.
///
/// Allocates nothing and waits for nothing. The caller provides the workspace, one per stream. Can be
/// captured in a CUDA graph as rows.h says. Not yet run on a GPU.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/cuda/launch.h"
#include "speedtorch/kernels/cuda/workspace_layout.h"
#include "speedtorch/kernels/steps/step_tables.h"

struct CUstream_st;

namespace speedtorch::kernels {

/// The bytes of workspace for an index of `count` entries and as many gradient rows of `row_bytes` each.
/// @throws ShapeError for 2^31 indices or more; CudaError if CUB cannot ask the device
std::int64_t sparse_step_workspace_bytes(std::int64_t count, std::int64_t row_bytes);

/// Step `step` (from 1) of the rows index[0] to index[count - 1], int32 or int64, by `count` contiguous
/// gradient rows.
///
/// Gradients of one row are added in the order of their positions, with the host's arithmetic on AVX2, so the
/// numbers are equal. A row with 128 repetitions or more adds up sums of 64: always in the same way, but
/// rounded otherwise than on the host. An invalid index is left out and counted in `launch.errors`.
/// @throws CudaError; ShapeError if the workspace is misaligned or too small
template <class T, class Index>
void sparse_step_cuda(const AnyUpdate<T>& update, const StepTables<T>& tables, const Index* index,
                      std::int64_t count, const T* grad, std::int64_t step, CUstream_st* stream,
                      Workspace workspace, const CudaLaunch& launch = {});

/// Step `step` (from 1) of every element of the tables, by a gradient per element. @throws CudaError
template <class T>
void update_all_cuda(const AnyUpdate<T>& update, const StepTables<T>& tables, const T* grad,
                     std::int64_t step, CUstream_st* stream, const CudaLaunch& launch = {});

}  // namespace speedtorch::kernels
