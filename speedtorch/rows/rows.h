/// Rows between tensors: gather, scatter and the contiguous streaming copy.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/kernels/rows/index_order.h"
#include "speedtorch/kernels/rows/rows.h"

namespace speedtorch {

using kernels::CopyWay;
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

/// out[i, ...] = table[index[i], ...] for every i.
///
/// `table` has at least one dimension and its rows (everything after the first dimension) are contiguous in
/// memory; the stride between rows is free. `index` is int32 or int64, contiguous, of n elements in any
/// shape. `out` has n rows of the table's dtype and row shape, or, contiguous, the index's shape before the
/// row's. What is written overlaps neither what is read nor itself (as the rows of an expanded tensor do).
/// CPU tensors go through the host kernels on LibTorch's threads. CUDA tensors, the zero-copy alias of pinned
/// memory among them, go through the CUDA kernels on the current stream and return before they are done; they
/// allocate nothing and wait for nothing, and can be captured in a CUDA graph once they ran outside of one.
/// `out`'s version counter is bumped. Autograd records nothing of it: speedtorch/rows/gather.h has the gather
/// that it does.
///
/// An index that names no row is an IndexError naming position, value and bound: on the CPU before anything
/// is written. On a GPU its row of `out` gets all bits set (NaN in floating-point types), nothing else is
/// touched, and check_index_errors() throws it.
/// @throws ShapeError naming both shapes, or that the two overlap, or what is wrong with the workspace;
/// PlacementError where the tensors are on different devices, or on one that is neither the CPU nor, in a
/// build with CUDA, a GPU; AutogradError for a table or out that requires a gradient while gradients are on;
/// LazyTensorError for an `out` that LibTorch conjugates or negates when it reads it. What is only read may
/// be such a tensor: the call then computes all of it first.
void gather_rows(const at::Tensor& table, const at::Tensor& index, at::Tensor& out,
                 const RowsOptions& options = {});

/// table[index[i], ...] = values[i, ...] for every i: the table first, as in the gather. Requirements and
/// errors as for gather_rows. Where `index` names a row more than once, one of its values wins, which one is
/// unspecified; on several threads, and on a GPU, the row may end as a mix of them
/// (speedtorch/rows/duplicates.h decides it). Values that require a gradient are taken as numbers. On a GPU
/// the values of bad indices are left out.
void scatter_rows(at::Tensor& table, const at::Tensor& index, const at::Tensor& values,
                  const RowsOptions& options = {});

/// Bytes of `options.workspace` that a gather with these operands needs; 0 for `as_given` and on the CPU.
/// @throws ShapeError, PlacementError, CudaError
std::int64_t gather_workspace_bytes(const at::Tensor& table, const at::Tensor& index, IndexOrder order);

/// Waits for the GPU and tells of bad indices in calls on it since the last time; nothing for the CPU. To be
/// called where the program waits anyway: the calls themselves never do. `cuda` without a number is the
/// current GPU. Several threads may call it, and call while others move rows: each bad index is told once,
/// but of calls that run during the check the position may be one that was told before.
/// @throws IndexError with one of them (position, value, rows), how many there were and the smallest
/// position.
void check_index_errors(at::Device device);

/// to = from, contiguous tensors of the same bytes and device that do not overlap, with stores that go past
/// the caches where that pays; on a GPU there is one way.
/// @throws ShapeError, PlacementError
void stream_copy(const at::Tensor& from, at::Tensor& to, CopyWay way = CopyWay::plain);

}  // namespace speedtorch
