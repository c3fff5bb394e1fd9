#include "speedtorch/infinity/step_guard.h"

#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <optional>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/infinity/out_of_memory.h"

namespace speedtorch::infinity {
namespace {

constexpr std::int64_t kAlign = 64;

std::int64_t padded(const at::Tensor& tensor) {
  return (static_cast<std::int64_t>(tensor.numel() * tensor.element_size()) + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

/// The state before the step: the changed tensors with copies of their values on the host, and the state
/// entries, which hold the same tensors and the step counts.
struct StepGuard::Before {
  using Entries = std::map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;
  Tensors changed;
  Tensors copies;
  std::vector<Entries> entries;  ///< one per optimizer
  std::vector<Tensors> own;      ///< one per optimizer: copies of custom states that set_state() restores

  void note(const Optimizer& optimizer) {
    for (const at::Tensor& parameter : optimizer.parameters())
      if (parameter.grad().defined()) changed.push_back(parameter.detach());
    Entries& of_this = entries.emplace_back();
    Tensors& own_copies = own.emplace_back();
    if (!optimizer.stock()) {
      const Tensors state = optimizer.own().state();
      if (optimizer.own().set_state) {
        for (const at::Tensor& tensor : state) own_copies.push_back(tensor.clone());
        return;
      }
      changed.insert(changed.end(), state.begin(), state.end());
      return;
    }
    for (const auto& state : states_of(*optimizer.stock()))
      changed.insert(changed.end(), state.tensors.begin(), state.tensors.end());
    for (const auto& [key, state] : optimizer.stock()->state()) of_this[key] = state->clone();
  }

  void put_back(const std::vector<Optimizer>& optimizers) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < changed.size(); ++i) changed[i].copy_(copies[i]);
    for (std::size_t i = 0; i < optimizers.size(); ++i) {
      if (!own[i].empty()) optimizers[i].own().set_state(own[i]);
      if (!optimizers[i].stock()) continue;
      auto& states = optimizers[i].stock()->state();
      states.clear();
      for (auto& [key, state] : entries[i]) states[key] = std::move(state);
    }
  }
};

void StepGuard::step(const std::vector<Optimizer>& optimizers) {
  if (optimizers.size() == 1 && optimizers.front().allocates_nothing()) return optimizers.front().step();
  for (int tries = 0; tries < 2; ++tries) {
    std::optional<Before> before;
    const auto all = [&] {
      Before noted;
      for (const Optimizer& optimizer : optimizers) noted.note(optimizer);
      noted.copies = copied_to_host(noted.changed);
      before = std::move(noted);
      for (const Optimizer& optimizer : optimizers) optimizer.step();
    };
    try {
      if (had_memory_for(all)) return;
    } catch (...) {
      if (before) before->put_back(optimizers);
      throw;
    }
    if (before) {
      before->put_back(optimizers);
      ++taken_back_;
    }
    for (const Optimizer& optimizer : optimizers)
      for (const at::Tensor& parameter : optimizer.parameters()) free_cached_memory(parameter.device());
  }
  throw OutOfMemory(
      "the optimizer's step ran out of memory twice; parameters, states and gradients are as before it. "
      "Leave it more memory: set options.memory_budget, or take a smaller micro-batch");
}

/// Gives each copy its tensor's layout: a copy between equal strides allocates nothing, so that the rollback
/// cannot fail.
Tensors StepGuard::copied_to_host(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += padded(tensor);
  if (bytes > 0 && (!memory_ || memory_->bytes() < bytes)) memory_ = allocate(Placement::pageable, bytes);
  const at::NoGradGuard no_grad;
  Tensors copies;
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    at::Tensor copy = memory_->host_tensor({memory_->bytes()}, at::kByte)
                          .narrow(0, offset, tensor.numel() * tensor.element_size())
                          .view(tensor.scalar_type());
    copy = tensor.is_non_overlapping_and_dense()
               ? copy.as_strided(tensor.sizes(), tensor.strides(), copy.storage_offset())
               : copy.view(tensor.sizes());
    copies.push_back(copy.copy_(tensor));
    offset += padded(tensor);
  }
  return copies;
}

}  // namespace speedtorch::infinity
