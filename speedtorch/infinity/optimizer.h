/// The optimizer, so that its step can be taken back.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/infinity/batch.h"

namespace torch::optim {
class Optimizer;
}

namespace speedtorch::infinity {

/// A handle: copies are the same optimizer.
class Optimizer {
 public:
  /// What an optimizer of one's own does; those of LibTorch and of speedtorch/optim need only be named.
  struct Own {
    std::function<void()> step;
    std::function<void()> zero_grad;
    std::function<Tensors()> parameters;
    /// All else that a step changes, on which it goes on: the tensors themselves, or copies.
    std::function<Tensors()> state;
    /// Takes such a list back; empty: its values are copied into the tensors of state().
    std::function<void(const Tensors& values)> set_state = {};
    /// Of the model's device, held by the states; empty: those of state().
    std::function<std::int64_t()> state_bytes = {};
    /// Then memory cannot run out half-way, and no copy is made before it.
    bool allocates_nothing = false;
  };

  /// One of LibTorch's, which the caller keeps alive. @throws InfinityBatchError for LBFGS, whose step
  /// computes the loss itself
  Optimizer(torch::optim::Optimizer& stock);  // NOLINT(google-explicit-constructor): it is an optimizer
  Optimizer(std::shared_ptr<torch::optim::Optimizer> stock);  // NOLINT(google-explicit-constructor)
  /// Its step allocates nothing, so that nothing is copied before it. The caller keeps it alive.
  Optimizer(ContiguousOptimizer& contiguous,  // NOLINT(google-explicit-constructor)
            const StepOptions& options = {});
  explicit Optimizer(Own own);

  void step() const;
  /// Gradients become undefined, or zero where the optimizer of one's own does it so.
  void zero_grad() const;
  [[nodiscard]] Tensors parameters() const;
  /// True for one of one's own that says so, and for LibTorch's SGD on a CPU as long as it has neither
  /// momentum nor weight decay and its gradients are as the parameters: an addition in place each, which
  /// cannot fail.
  [[nodiscard]] bool allocates_nothing() const;
  /// LibTorch's optimizer; null for one of one's own.
  [[nodiscard]] torch::optim::Optimizer* stock() const { return stock_.get(); }
  /// One's own; all empty for LibTorch's.
  [[nodiscard]] const Own& own() const { return own_; }
  /// Of one's own: as Own::set_state. @throws InfinityBatchError for another number of states
  void set_own_state(const Tensors& values) const;
  /// Its class and how many parameters each group has: optimizers that differ in it cannot take each other's
  /// states.
  [[nodiscard]] std::string kind() const;

 private:
  std::shared_ptr<torch::optim::Optimizer> stock_;
  Own own_;
};

/// The tensors among the states of an optimizer, by the address of their parameter's handle.
struct StateOfParameter {
  void* key = nullptr;
  Tensors tensors;
};

/// @throws InfinityBatchError for an optimizer whose states are of a type that is not known
std::vector<StateOfParameter> states_of(torch::optim::Optimizer& stock);

/// Bytes of all states.
std::int64_t state_bytes(const Optimizer& optimizer);

/// Moves states to where their parameters are.
void move_states(const Optimizer& optimizer);

}  // namespace speedtorch::infinity
