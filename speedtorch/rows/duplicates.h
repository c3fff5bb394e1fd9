/// Rows that occur several times in an index: how a scatter treats them, and how to find the distinct rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

#include "speedtorch/kernels/parallel.h"
#include "speedtorch/rows/row_index.h"

namespace speedtorch {

/// The effect of a scatter on a row that occurs several times.
enum class Duplicates {
  none,        ///< the caller knows that no row repeats; not checked, undefined if one does
  reject,      ///< throws DuplicateError and writes nothing
  last,        ///< the value at the row's last position wins
  accumulate,  ///< adds the values to the row in the order of their positions
};

/// scatter_rows() (speedtorch/rows/rows.h) with defined duplicates: the result depends on the operands alone,
/// not on the number of threads. For a table [rows, R...], `values` is [n, R...] or has the index's shape
/// before R.
///
/// `accumulate` means table[index[i]] += values[i] for each i in order, also if no row repeats. float16 and
/// bfloat16 are added in float32 and rounded once per row; integers wrap; bool is "or".
///
/// On a GPU it waits for the index, which the host reads. There `accumulate` is LibTorch's index_put_, which
/// sorts and adds in the order of positions. Not yet run on a GPU.
/// @throws DuplicateError naming the row whose second occurrence comes first, and its first two positions;
/// ShapeError for elements that cannot be added; as scatter_rows()
void scatter_rows(at::Tensor& table, const RowIndex& index, const at::Tensor& values, Duplicates duplicates);

/// Writes one row of a table: calls `set` once, with memory for the row's new value. `set` may read the row
/// in the table, which must not change before the new value is there.
using RowWriter =
    kernels::FunctionRef<void(std::int64_t row, kernels::FunctionRef<void(std::byte* value)> set)>;

/// Does the same for a table on the CPU, but each distinct row is written by `write`, on several threads at
/// once. For rows that other processes write too. `none` is as `last`.
/// @throws as above; what `write` throws, and then part of the rows are written
void scatter_rows(at::Tensor& table, const RowIndex& index, const at::Tensor& values, Duplicates duplicates,
                  RowWriter write);

/// The distinct rows of an index.
struct DistinctRows {
  at::Tensor rows;       ///< int64 [k], ascending, on the host
  at::Tensor positions;  ///< int64 of the index's shape, on the host: rows[positions[i]] is index[i]
};

/// @throws IndexError for an index outside of `rows` rows; as RowIndex
DistinctRows distinct_rows(const RowIndex& index, std::int64_t rows);

/// @throws DuplicateError as above if the index repeats a row; IndexError; as RowIndex
void require_distinct(const RowIndex& index, std::int64_t rows);

}  // namespace speedtorch
