/// Options of row movement on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/kernels/rows/index_order.h"

namespace speedtorch {

using kernels::IndexOrder;

/// Options of row movement on a GPU. The host's kernels ignore them.
struct RowsOptions {
  /// The maximum number of streaming multiprocessors, so that other work keeps the rest; 0: all. With
  /// `sorted` and `unique` it limits the movement, but not the sort and the scan: CUB's kernels offer no
  /// limit.
  int max_sms = 0;
  bool check_indices = true;  ///< false: the caller guarantees valid indices; an invalid one is a wild access
  /// For a gather from pinned memory: sorts or deduplicates the index first
  /// (speedtorch/kernels/rows/index_order.h says when).
  IndexOrder order = IndexOrder::as_given;
  /// For an order: at least gather_workspace_bytes() bytes on the table's GPU, contiguous and aligned to 256
  /// bytes as LibTorch's allocations are. One per stream.
  at::Tensor workspace;
};

}  // namespace speedtorch
