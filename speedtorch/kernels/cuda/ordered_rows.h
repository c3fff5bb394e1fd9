/// A gather that first sorts or deduplicates its index on the device. It pays over a link for tiny rows and
/// for indices that repeat rows: index_order.h says when.
///
/// Allocates nothing and waits for nothing. The caller provides the workspace. The call uses all of it, so
/// each stream needs its own. Can be captured in a CUDA graph as rows.h says. Not yet run on a GPU.
#pragma once

#include "speedtorch/kernels/cuda/launch.h"
#include "speedtorch/kernels/cuda/workspace_layout.h"
#include "speedtorch/kernels/row_view.h"
#include "speedtorch/kernels/rows/index_order.h"

struct CUstream_st;

namespace speedtorch::kernels {

/// The bytes of workspace for `count` indices of `index_bytes` (4 or 8) into rows of `row_bytes`; 0 for
/// `as_given`.
/// @throws ShapeError for 2^31 indices or more; CudaError if CUB cannot ask the device
std::int64_t ordered_workspace_bytes(IndexOrder order, std::int64_t count, int index_bytes,
                                     std::int64_t row_bytes);

/// Does what gather_rows_cuda does, in that order: the same rows at the same positions.
/// @throws as gather_rows_cuda; ShapeError if the workspace is misaligned or too small
template <class Index>
void gather_rows_ordered_cuda(ConstRows table, const Index* index, std::int64_t count, Rows out,
                              CUstream_st* stream, IndexOrder order, Workspace workspace,
                              const CudaLaunch& launch = {});

}  // namespace speedtorch::kernels
