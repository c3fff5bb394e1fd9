/// Helpers for tensors: their names in messages, lazy tensors, version counters.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace speedtorch {

/// The dimensions of `first`, then those of `then`.
std::vector<std::int64_t> joined_sizes(at::IntArrayRef first, at::IntArrayRef then);

/// Dtype and shape for messages: "Float [5, 4]".
std::string shape_of(const at::Tensor& tensor);

/// Dtype, shape and, if the tensor is not contiguous, strides: "Float [5, 4] with strides [1, 5]".
std::string layout_of(const at::Tensor& tensor);

/// The first difference of two indices, as in "position 3 is row 7 here and was row 5", or their counts if
/// these differ.
std::string first_difference(const at::Tensor& now, const at::Tensor& before);

/// True if the tensor's memory does not hold its numbers. LibTorch conjugates or negates them at each read
/// (`conj()`, `imag()` of a `conj()`), or they are zeros without memory (`_efficientzerotensor()`).
inline bool is_lazy(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has_any(c10::DispatchKeySet(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor}));
}

/// Returns the tensor, or for a lazy tensor a copy of its numbers in memory. For operands that are only read
/// through a raw pointer. Autograd does not see the copy.
at::Tensor resolved(const at::Tensor& tensor);

[[noreturn, gnu::noinline, gnu::cold]] void refuse_lazy(const at::Tensor& tensor, const std::string& name);

/// For operands that are written through a raw pointer. @throws LazyTensorError naming `name` for a lazy
/// tensor
inline void check_in_memory(const at::Tensor& tensor, const char* name) {
  if (is_lazy(tensor)) refuse_lazy(tensor, name);
}

/// Tells autograd of a write through a raw pointer, which it does not see.
inline void bump_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace speedtorch
