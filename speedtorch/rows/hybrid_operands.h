/// What a hybrid gather asks of its tensors. All of it is known before anything is enqueued, and is asked of
/// the tensors alone, so that it is tested without a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace speedtorch {

/// @throws ShapeError unless the table has rows of at least a byte, and `batch` at least one row.
void check_hybrid_table(const at::Tensor& table, std::int64_t batch);

/// Host pointers are made of `host_index` and the copy engine writes to `out`, neither of which looks at
/// shapes. @throws ShapeError unless both indices are contiguous int32 or int64 of one number of elements, at
/// most `batch`, and `out` is contiguous with as many rows like the table's; PlacementError unless `index`
/// and `out` are on the table's device and `host_index` on the CPU.
void check_hybrid_operands(const at::Tensor& table, std::int64_t batch, const at::Tensor& index,
                           const at::Tensor& host_index, const at::Tensor& out);

/// Checks a flat host index from position `first` on, for a table of `rows` rows.
/// @throws IndexError with the position in the whole index
void check_hybrid_indices(const at::Tensor& host_index, std::int64_t first, std::int64_t rows);

}  // namespace speedtorch
