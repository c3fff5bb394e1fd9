/// Differentiable gather into a new tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/rows/row_index.h"

namespace speedtorch {

/// Returns table[index] as a new tensor on the table's device: [I..., R...] for a table [rows, R...] and an
/// index of shape I.
///
/// If the table requires a gradient (and gradients are on), so does the result. The table's gradient is the
/// sum of the gradients of each row's positions, in their order on any number of threads, and zero for all
/// other rows. It can be differentiated again.
///
/// Rows move as by gather_rows() with `out` (speedtorch/rows/rows.h). The table's rows must be contiguous.
/// @throws as there; ShapeError, IndexError as RowIndex
at::Tensor gather_rows(const at::Tensor& table, const RowIndex& index);

}  // namespace speedtorch
