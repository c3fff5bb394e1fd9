/// How rows move on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/kernels/rows/index_order.h"

namespace speedtorch {

using kernels::IndexOrder;

/// How rows are moved on a GPU; the host's kernels take no notice of it.
struct RowsOptions {
  /// Streaming multiprocessors to use at most, so that others keep theirs; 0: all. With `sorted` and `unique`
  /// the sort and the scan (CUB's kernels, which offer no limit) take what they find; the rows keep to
  /// it.
  int max_sms = 0;
  bool check_indices = true;  ///< false: the caller vouches for them; a bad one is then a wild access
  /// Of a gather from pinned memory: sorted or deduplicated first (speedtorch/kernels/rows/index_order.h has
  /// the rule).
  IndexOrder order = IndexOrder::as_given;
  /// For an order: of gather_workspace_bytes() bytes at least on the table's GPU, contiguous, starting at a
  /// multiple of 256 bytes as LibTorch's allocations do; one for each stream.
  at::Tensor workspace;
};

}  // namespace speedtorch
