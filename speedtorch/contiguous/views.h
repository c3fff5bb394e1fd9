/// The views that ContiguousParameters attached, to be compared with the current state. Internal.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <vector>

#include "speedtorch/contiguous/flat_buffers.h"

namespace speedtorch {

/// Each step checks every parameter, so the checks read LibTorch's fields directly: grad(), requires_grad()
/// and the comparison of two shapes are function calls (docs/contiguous.md has the figures).
class AttachedViews {
 public:
  struct View {
    at::Tensor gradient;  ///< with the parameter's strides
    const c10::TensorImpl* parameter;
    std::size_t bucket;
    std::int64_t begin;
    std::uint32_t version = 0;  ///< of the gradient, when it was last zeroed
  };
  std::vector<View> entries;  ///< one per place
  std::vector<std::uint32_t>
      buffer_versions;  ///< one per bucket: its gradient's version when it was last zeroed
  SumScratch scratch;

  /// True if the parameter's data lies where it was put, with the same shape, and is trained.
  [[nodiscard]] static bool data_in_place(const View& view, const at::Tensor& buffer) {
    const auto& was = *view.gradient.unsafeGetTensorImpl();
    const auto& is = *view.parameter;
    const auto* const autograd = autograd_of(is);
    return lies_in(is, buffer, view.begin) && same(is.sizes(), was.sizes()) &&
           same(is.strides(), was.strides()) && autograd != nullptr &&
           (autograd->requires_grad_ || autograd->grad_fn_ != nullptr);
  }
  [[nodiscard]] static bool gradient_in_place(const View& view, const at::Tensor& buffer) {
    const auto* const autograd = autograd_of(*view.parameter);
    const auto* const gradient = view.gradient.unsafeGetTensorImpl();
    return autograd != nullptr && autograd->grad_.unsafeGetTensorImpl() == gradient &&
           lies_in(*gradient, buffer, view.begin);
  }

  /// Checking a tensor touches about eight cache lines, all cold. For small tensors these misses dominate the
  /// step, so they are prefetched (docs/contiguous.md).
  void prefetch(std::size_t place) const {
    constexpr std::size_t kAhead = 8;
    if (place + kAhead >= entries.size()) return;
    for (const auto* const impl :
         {entries[place + kAhead].parameter,
          static_cast<const c10::TensorImpl*>(entries[place + kAhead].gradient.unsafeGetTensorImpl())})
      for (int line = 0; line < 3; ++line)
        __builtin_prefetch(reinterpret_cast<const char*>(impl) + 64 * line);
    const auto& nearer = entries[place + kAhead / 2];
    __builtin_prefetch(nearer.parameter->autograd_meta());
    __builtin_prefetch(counter_of(*nearer.gradient.unsafeGetTensorImpl()));
  }

 private:
  static const torch::autograd::AutogradMeta* autograd_of(const c10::TensorImpl& tensor) {
    return static_cast<const torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  }
  /// The address of the version count. A VariableVersion holds only a pointer to it.
  static const void* counter_of(const c10::TensorImpl& tensor) {
    static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
    return *reinterpret_cast<const void* const*>(&tensor.version_counter());
  }
  static bool same(at::IntArrayRef one, at::IntArrayRef other) {
    if (one.size() != other.size()) return false;
    for (std::size_t d = 0; d < one.size(); ++d)
      if (one[d] != other[d]) return false;
    return true;
  }
};

}  // namespace speedtorch
