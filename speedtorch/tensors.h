/// What several files say of a tensor, or do to one.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace speedtorch {

/// As messages name it: "Float [5, 4]".
std::string shape_of(const at::Tensor& tensor);

/// Writes through raw pointers are unseen by autograd: tells it.
inline void bump_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace speedtorch
