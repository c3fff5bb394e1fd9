/// A gather whose index is sorted, or deduplicated, on the device first. Worth it over a link for tiny rows
/// and for indices that repeat rows: index_order.h says when.
///
/// Nothing is allocated and nothing waited for: the caller brings the workspace, of which the whole is used,
/// so that one workspace serves one stream. Safe to capture in a CUDA graph as rows.h says. Not yet run
/// on a GPU.
#pragma once

#include "speedtorch/kernels/cuda/launch.h"
#include "speedtorch/kernels/cuda/workspace_layout.h"
#include "speedtorch/kernels/row_view.h"
#include "speedtorch/kernels/rows/index_order.h"

struct CUstream_st;

namespace speedtorch::kernels {

/// Bytes of workspace for `count` indices of `index_bytes` (4 or 8) into rows of `row_bytes`; 0 for
/// `as_given`.
/// @throws ShapeError where there are 2^31 indices or more; CudaError where CUB cannot ask the device.
std::int64_t ordered_workspace_bytes(IndexOrder order, std::int64_t count, int index_bytes,
                                     std::int64_t row_bytes);

/// As gather_rows_cuda, in the order asked for: the same rows in the same places.
/// @throws as gather_rows_cuda; ShapeError where the workspace is misaligned or too small.
void gather_rows_ordered_cuda(ConstRows table, const std::int32_t* index, std::int64_t count, Rows out,
                              CUstream_st* stream, IndexOrder order, Workspace workspace,
                              const CudaLaunch& launch = {});
void gather_rows_ordered_cuda(ConstRows table, const std::int64_t* index, std::int64_t count, Rows out,
                              CUstream_st* stream, IndexOrder order, Workspace workspace,
                              const CudaLaunch& launch = {});

}  // namespace speedtorch::kernels
