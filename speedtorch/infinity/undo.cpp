#include "speedtorch/infinity/undo.h"

#include <ATen/core/grad_mode.h>

namespace speedtorch::infinity {

Undo::Undo(const Model& model, at::Device device) : random_(device) {
  const at::NoGradGuard no_grad;
  if (!model.any_training()) return;
  for (const NamedTensor& buffer : model.named_buffers())
    buffers_.emplace_back(buffer.tensor, buffer.tensor.clone());
}

void Undo::restore() const {
  random_.restore();
  restore_buffers();
}

void Undo::restore_buffers() const {
  const at::NoGradGuard no_grad;
  for (auto [buffer, before] : buffers_) buffer.copy_(before);
}

at::Tensor Undo::before(const at::Tensor& buffer) const {
  for (const auto& [noted, was] : buffers_)
    if (noted.is_same(buffer)) return was;
  return {};
}

}  // namespace speedtorch::infinity
