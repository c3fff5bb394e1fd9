/// Memory for new tensors of rows.
#pragma once

#include <ATen/core/Tensor.h>

namespace speedtorch {

/// at::empty() for rows that will be written at once. On the CPU it asks for huge pages from 32 MiB on.
at::Tensor new_output(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace speedtorch
