/// The views of a ContiguousParameters: what was put where. Internal.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <vector>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/contiguous/parameters.h"

namespace speedtorch {

/// What was put where, to be compared with what is there. Each step asks it of each parameter: LibTorch's
/// fields are read themselves and each tensor is found from here at once, since grad(), requires_grad() and
/// the comparison of two shapes are calls (docs/contiguous.md has the figures).
class ContiguousParameters::Views {
 public:
  struct View {
    at::Tensor gradient;  ///< of the parameter's strides
    const c10::TensorImpl* parameter;
    std::size_t bucket;
    std::int64_t begin;
    std::uint32_t version = 0;  ///< when it was last zeroed
  };
  std::vector<View> entries;                   ///< each place
  std::vector<std::uint32_t> buffer_versions;  ///< of each bucket's gradient, when it was last zeroed
  SumScratch scratch;

  /// Whether the parameter itself is where it was put.
  [[nodiscard]] static bool data_in_place(const View& view, const Bucket& bucket) {
    const auto& was = *view.gradient.unsafeGetTensorImpl();
    const auto& is = *view.parameter;
    const auto* const autograd = autograd_of(is);
    return lies_in(is, bucket.data, view.begin) && same(is.sizes(), was.sizes()) &&
           same(is.strides(), was.strides()) && autograd != nullptr &&
           (autograd->requires_grad_ || autograd->grad_fn_ != nullptr);
  }
  [[nodiscard]] static bool gradient_in_place(const View& view, const Bucket& bucket) {
    const auto* const autograd = autograd_of(*view.parameter);
    const auto* const gradient = view.gradient.unsafeGetTensorImpl();
    return autograd != nullptr && autograd->grad_.unsafeGetTensorImpl() == gradient &&
           lies_in(*gradient, bucket.gradient, view.begin);
  }

  /// What is looked at of a tensor lies on some eight lines that nobody else's step leaves in the caches: of
  /// small tensors, they are much of a step (docs/contiguous.md).
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
  /// Where the version is counted: all that a VariableVersion holds is the pointer to it.
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
