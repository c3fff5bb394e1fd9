/// Rows that an index names more than once: what a scatter does with them, and how to name each once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "speedtorch/rows/row_index.h"

namespace speedtorch {

/// What happens where an index names a row several times.
enum class Duplicates {
  none,        ///< the caller knows that there are none; they are not looked for, and undecided
  reject,      ///< DuplicateError, and nothing is written
  last,        ///< the value of the last place stays
  accumulate,  ///< values are added to the row, those of each place in the order of places
};

/// scatter_rows() (speedtorch/rows/rows.h) with the duplicates decided: the result depends on the operands
/// alone, not on the number of threads. For a table [rows, R...], `values` is [n, R...] or the index's shape
/// before R. With `accumulate` this is table[index[i]] += values[i] for each i in order: every place counts,
/// also where no row is named twice. float16 and bfloat16 are added in float32 and rounded once a row,
/// integers wrap, bool is "or".
///
/// On a GPU it waits for the index, which the host looks at, and `accumulate` is LibTorch's index_put_ (which
/// sorts, and adds in the order of places). Not yet run on a GPU.
/// @throws DuplicateError naming the row and its first two places, of the rows named twice the one whose
/// second place comes first; ShapeError for elements that cannot be added; as scatter_rows()
void scatter_rows(at::Tensor& table, const RowIndex& index, const at::Tensor& values, Duplicates duplicates);

/// The distinct rows of an index.
struct DistinctRows {
  at::Tensor rows;       ///< int64 [k], ascending, on the host
  at::Tensor positions;  ///< int64 of the index's shape, on the host: rows[positions[i]] is index[i]
};

/// @throws IndexError where an index names none of `rows` rows; as RowIndex
DistinctRows distinct_rows(const RowIndex& index, std::int64_t rows);

/// @throws DuplicateError as above where the index names a row twice; IndexError; as RowIndex
void require_distinct(const RowIndex& index, std::int64_t rows);

}  // namespace speedtorch
