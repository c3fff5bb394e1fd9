/// The operators torch.ops.speedtorch.* as C++ calls them, through LibTorch's dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace speedtorch::python {

using GatherRows = at::Tensor(const at::Tensor& table, const at::Tensor& index, bool sparse_grad);
using GatherRowsOut = void(const at::Tensor& table, const at::Tensor& index, at::Tensor& out);
using ScatterRows = void(at::Tensor& table, const at::Tensor& index, const at::Tensor& values,
                         c10::string_view duplicates);
using GatherOp = c10::TypedOperatorHandle<GatherRows>;
using GatherOutOp = c10::TypedOperatorHandle<GatherRowsOut>;
using ScatterOp = c10::TypedOperatorHandle<ScatterRows>;

const GatherOp& gather_op();
const GatherOutOp& gather_out_op();
const ScatterOp& scatter_op();

}  // namespace speedtorch::python
