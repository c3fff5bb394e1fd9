#include "speedtorch/infinity/undo.h"

#include <ATen/core/grad_mode.h>

namespace speedtorch::infinity {

namespace {

/// How often LibTorch counted a write to the tensor; -1 if it does not count.
std::int64_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? -1 : tensor._version(); }

}  // namespace

Undo::Undo(const Model& model, at::Device device) : random_(device) {
  const at::NoGradGuard no_grad;
  if (!model.any_training()) return;
  for (const at::Tensor& buffer : model.buffers())
    buffers_.push_back({buffer, buffer.clone(), version_of(buffer)});
}

void Undo::restore() const {
  random_.restore();
  restore_buffers();
}

void Undo::restore_buffers() const {
  const at::NoGradGuard no_grad;
  for (const auto& [buffer, before, version] : buffers_) {
    const bool counted = version < 0 || version_of(buffer) != version;
    (counted ? buffer : buffer.variable_data()).copy_(before);
  }
}

at::Tensor Undo::before(const at::Tensor& buffer) const {
  for (const auto& [noted, was, version] : buffers_)
    if (noted.is_same(buffer)) return was;
  return {};
}

}  // namespace speedtorch::infinity
