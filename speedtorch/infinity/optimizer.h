/// The optimizer, with access to the states that a rollback of its step needs.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/infinity/batch.h"

namespace torch::optim {
class Optimizer;
}

namespace speedtorch::infinity {

/// A handle: copies share the optimizer.
class Optimizer {
 public:
  /// A custom optimizer. Not needed for those of LibTorch and of speedtorch/optim.
  struct Own {
    std::function<void()> step;
    std::function<void()> zero_grad;
    std::function<Tensors()> parameters;
    /// Everything else that a step changes and that later steps depend on: the tensors themselves, or copies.
    std::function<Tensors()> state;
    /// Restores such a list. Empty: the values are copied into the tensors of state().
    std::function<void(const Tensors& values)> set_state = {};
    /// Returns the bytes of the states on the model's device. Empty: the size of state().
    std::function<std::int64_t()> state_bytes = {};
    /// True if a step allocates nothing. It then cannot run out of memory, and no copy is made before it.
    bool allocates_nothing = false;
  };

  /// An optimizer of LibTorch. The caller keeps it alive. @throws InfinityBatchError for LBFGS, whose step
  /// computes the loss itself
  Optimizer(torch::optim::Optimizer& stock);  // NOLINT(google-explicit-constructor): it is an optimizer
  Optimizer(std::shared_ptr<torch::optim::Optimizer> stock);  // NOLINT(google-explicit-constructor)
  /// Its step allocates nothing, so no copy is made before it. The caller keeps it alive.
  Optimizer(ContiguousOptimizer& contiguous,  // NOLINT(google-explicit-constructor)
            const StepOptions& options = {});
  explicit Optimizer(Own own);

  void step() const;
  /// Makes gradients undefined; a custom optimizer may zero them instead.
  void zero_grad() const;
  [[nodiscard]] Tensors parameters() const;
  /// True if the step cannot run out of memory: a custom optimizer that declares it, or LibTorch's SGD on the
  /// CPU without momentum and weight decay and with dense gradients of the parameters' dtype.
  [[nodiscard]] bool allocates_nothing() const;
  /// LibTorch's optimizer; null for a custom one.
  [[nodiscard]] torch::optim::Optimizer* stock() const { return stock_.get(); }
  /// The custom optimizer; all members are empty for LibTorch's.
  [[nodiscard]] const Own& own() const { return own_; }
  /// Calls Own::set_state of a custom optimizer. @throws InfinityBatchError for another number of states
  void set_own_state(const Tensors& values) const;
  /// Its class and the number of parameters per group. Optimizers with different values cannot exchange
  /// states.
  [[nodiscard]] std::string kind() const;

 private:
  std::shared_ptr<torch::optim::Optimizer> stock_;
  Own own_;
};

/// The state tensors of one parameter, keyed by the address of its TensorImpl.
struct StateOfParameter {
  void* key = nullptr;
  Tensors tensors;
};

/// @throws InfinityBatchError for an optimizer with states of an unknown type
std::vector<StateOfParameter> states_of(torch::optim::Optimizer& stock);

/// Returns the size of all states, in bytes.
std::int64_t state_bytes(const Optimizer& optimizer);

/// Moves the states to the devices of their parameters.
void move_states(const Optimizer& optimizer);

}  // namespace speedtorch::infinity
