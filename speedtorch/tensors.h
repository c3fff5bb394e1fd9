/// What several files say of a tensor, or do to one.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace speedtorch {

/// As messages name it: "Float [5, 4]".
std::string shape_of(const at::Tensor& tensor);

/// The same with what a reader of memory must know: "Float [5, 4] with strides [1, 5]" where they are not
/// contiguous.
std::string layout_of(const at::Tensor& tensor);

/// Where two indices of the same rows differ first, as in "position 3 is row 7 here and was row 5"; or in
/// their counts.
std::string first_difference(const at::Tensor& now, const at::Tensor& before);

/// Whether the tensor's memory does not hold its numbers: LibTorch conjugates or negates them when it reads
/// them (`conj()`, `imag()` of that), or they are zeros without memory (`_efficientzerotensor()`).
inline bool is_lazy(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has_any(c10::DispatchKeySet(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor}));
}

/// The tensor, or for a lazy one a copy of its numbers in memory. For what is only read through a raw
/// pointer. Autograd does not see the copy.
at::Tensor resolved(const at::Tensor& tensor);

[[noreturn, gnu::noinline, gnu::cold]] void refuse_lazy(const at::Tensor& tensor, const std::string& name);

/// For what is written through a raw pointer. @throws LazyTensorError, by that name, for a lazy tensor
inline void check_in_memory(const at::Tensor& tensor, const char* name) {
  if (is_lazy(tensor)) refuse_lazy(tensor, name);
}

/// Writes through raw pointers are unseen by autograd: tells it.
inline void bump_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace speedtorch
