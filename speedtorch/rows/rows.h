/// Gather, scatter and the contiguous streaming copy between tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/rows/rows_options.h"

namespace speedtorch {

using kernels::CopyWay;

/// out[i, ...] = table[index[i], ...] for every i. Not differentiable; speedtorch/rows/gather.h is.
///
/// - `table` has at least one dimension. Its rows (all but the first dimension) are contiguous; the stride
///   between rows is free.
/// - `index` is int32 or int64, contiguous, with n elements in any shape.
/// - `out` has n rows of the table's dtype and row shape, or, contiguous, the index's shape before the row's.
///   It must not overlap the table, the index or itself (as an expanded tensor does). Its version counter is
///   bumped.
///
/// CPU tensors use the host kernels on LibTorch's threads. CUDA tensors, including the zero-copy alias of
/// pinned memory, use the CUDA kernels on the current stream. These calls return before they are done,
/// allocate nothing and wait for nothing. They can be captured in a CUDA graph once they ran outside of one.
///
/// An invalid index on the CPU is an IndexError naming position, value and bound, before anything is written.
/// On a GPU its row of `out` gets all bits set (NaN in floating-point types), and check_index_errors() throws
/// it.
///
/// Operands that are only read may be lazy tensors; the call then computes all of them first.
/// @throws ShapeError naming both shapes, or for an overlap or a bad workspace; PlacementError if the tensors
/// are on different devices, or on one that is neither the CPU nor, in a build with CUDA, a GPU;
/// AutogradError if the table or `out` requires a gradient while gradients are on; LazyTensorError for a lazy
/// `out`; FileError if it is in a file that is open read-only
void gather_rows(const at::Tensor& table, const at::Tensor& index, at::Tensor& out,
                 const RowsOptions& options = {});

/// table[index[i], ...] = values[i, ...] for every i. Requirements and errors are those of gather_rows(). If
/// `index` repeats a row, an unspecified one of its values wins; on several threads and on a GPU the row may
/// end as a mix of them (speedtorch/rows/duplicates.h defines it). Values that require a gradient are used as
/// plain numbers. On a GPU the values of invalid indices are left out.
void scatter_rows(at::Tensor& table, const at::Tensor& index, const at::Tensor& values,
                  const RowsOptions& options = {});

/// The bytes of `options.workspace` that a gather with these operands needs; 0 for `as_given` and on the CPU.
/// @throws ShapeError, PlacementError, CudaError
std::int64_t gather_workspace_bytes(const at::Tensor& table, const at::Tensor& index, IndexOrder order);

/// Waits for the GPU and reports invalid indices in calls on it since the last check. Does nothing for the
/// CPU. Call it where the program waits anyway, because the movements themselves never wait. `cuda` without a
/// number is the current GPU. Thread-safe, also while other threads move rows: each invalid index is reported
/// once, but for calls that run during the check the position may be one that was reported before.
/// @throws IndexError with one of them (position, value, rows), their number and the smallest position
void check_index_errors(at::Device device);

/// to = from, for contiguous tensors of the same size and device that do not overlap. Bypasses the caches if
/// that pays. On a GPU there is one way.
/// @throws ShapeError, PlacementError
void stream_copy(const at::Tensor& from, at::Tensor& to, CopyWay way = CopyWay::plain);

}  // namespace speedtorch
