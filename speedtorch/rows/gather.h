/// Gather into a new tensor, as autograd knows it.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/rows/row_index.h"

namespace speedtorch {

/// table[index], as a new tensor on the table's device: for a table [rows, R...] and an index of shape I, of
/// shape [I..., R...]. Where the table requires a gradient (and gradients are on), so does the result: the
/// gradient of the table is zero but for the rows that were named, which get the sum of the gradients of all
/// their places, in the order of the places whatever the threads. It can be differentiated again.
///
/// The rows move as by gather_rows() with `out` (speedtorch/rows/rows.h); the table's rows must be
/// contiguous.
/// @throws as there; ShapeError, IndexError as RowIndex
at::Tensor gather_rows(const at::Tensor& table, const RowIndex& index);

}  // namespace speedtorch
