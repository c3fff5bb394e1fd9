/// Rows between tensors: gather, scatter and the contiguous streaming copy.
#pragma once

#include <ATen/core/Tensor.h>

namespace speedtorch {

/// out[i, ...] = table[index[i], ...] for every i.
///
/// `table` has at least one dimension and its rows (everything after the first dimension) are contiguous in
/// memory; the stride between rows is free. `index` is int32 or int64, contiguous, of n elements in any
/// shape. `out` has n rows of the table's dtype and row shape. CPU tensors go through the host kernels on
/// LibTorch's threads. CUDA tensors, the zero-copy alias of pinned memory among them, go through the CUDA
/// kernels on the current stream and return before they are done. `out`'s version counter is bumped.
/// @throws ShapeError naming both shapes; IndexError naming position, value and bound, before anything is
/// written (CPU); PlacementError where the tensors are on different devices.
void gather_rows(const at::Tensor& table, const at::Tensor& index, at::Tensor& out);

/// table[index[i], ...] = values[i, ...] for every i. Requirements and errors as for gather_rows. Where
/// `index` names a row more than once, one of its values wins, which one is unspecified.
void scatter_rows(const at::Tensor& values, const at::Tensor& index, at::Tensor& table);

/// to = from, contiguous tensors of the same bytes and device, with stores that go past the caches where that
/// pays.
/// @throws ShapeError, PlacementError
void stream_copy(const at::Tensor& from, at::Tensor& to);

}  // namespace speedtorch
