/// Moves rows on a GPU, on the current stream. The caller has checked the operands. For the library's own
/// files.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/kernels/row_view.h"
#include "speedtorch/rows/rows_options.h"

namespace speedtorch {

/// @throws PlacementError, ShapeError for the workspace of `options`; CudaError
void gather_on_gpu(const at::Tensor& table, kernels::ConstRows from, const at::Tensor& index,
                   kernels::Rows to, const RowsOptions& options);

/// @throws CudaError
void scatter_on_gpu(kernels::ConstRows from, const at::Tensor& index, kernels::Rows to,
                    const at::Tensor& table, const RowsOptions& options);

/// The bytes of workspace that gather_on_gpu() needs. @throws ShapeError, CudaError
std::int64_t workspace_bytes_on_gpu(const at::Tensor& table, const at::Tensor& index, IndexOrder order);

/// @throws CudaError
void stream_copy_on_gpu(std::byte* to, const std::byte* from, std::int64_t bytes, at::Device gpu);

}  // namespace speedtorch
