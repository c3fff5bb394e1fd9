/// Checks the operands of a hybrid gather before it enqueues anything. The checks need the tensors alone, so
/// that they are tested without a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace speedtorch {

/// @throws ShapeError unless the table has rows of at least one byte and `batch` is at least 1
void check_hybrid_table(const at::Tensor& table, std::int64_t batch);

/// These checks matter because raw host pointers and the copy engine ignore shapes.
/// @throws ShapeError unless both indices are contiguous int32 or int64 with the same number of elements, at
/// most `batch`, and `out` is contiguous with that many rows like the table's; PlacementError unless `index`
/// and `out` are on the table's device and `host_index` is on the CPU
void check_hybrid_operands(const at::Tensor& table, std::int64_t batch, const at::Tensor& index,
                           const at::Tensor& host_index, const at::Tensor& out);

/// Checks a flat host index from position `first` on, for a table of `rows` rows.
/// @throws IndexError with the position in the whole index
void check_hybrid_indices(const at::Tensor& host_index, std::int64_t first, std::int64_t rows);

}  // namespace speedtorch
