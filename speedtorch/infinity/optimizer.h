/// The optimizer, so that its step can be taken back.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/infinity/batch.h"

namespace torch::optim {
class Optimizer;
}

namespace speedtorch::infinity {

/// A handle: copies are the same optimizer.
class Optimizer {
 public:
  /// What an optimizer of one's own does; those of LibTorch need only be named.
  struct Own {
    std::function<void()> step;
    std::function<void()> zero_grad;
    std::function<Tensors()> parameters;
    /// All else that a step changes.
    std::function<Tensors()> state;
    /// Then memory cannot run out half-way, and no copy is made before it.
    bool allocates_nothing = false;
  };

  /// One of LibTorch's, which the caller keeps alive. @throws InfinityBatchError for LBFGS, whose step
  /// computes the loss itself
  Optimizer(torch::optim::Optimizer& stock);  // NOLINT(google-explicit-constructor): it is an optimizer
  Optimizer(std::shared_ptr<torch::optim::Optimizer> stock);  // NOLINT(google-explicit-constructor)
  explicit Optimizer(Own own);

  void step() const;
  /// Gradients become undefined.
  void zero_grad() const;
  [[nodiscard]] Tensors parameters() const;
  [[nodiscard]] bool allocates_nothing() const { return !stock_ && own_.allocates_nothing; }
  /// LibTorch's optimizer; null for one of one's own.
  [[nodiscard]] torch::optim::Optimizer* stock() const { return stock_.get(); }
  /// One's own; all empty for LibTorch's.
  [[nodiscard]] const Own& own() const { return own_; }

 private:
  std::shared_ptr<torch::optim::Optimizer> stock_;
  Own own_;
};

/// The tensors among the states of LibTorch's optimizer, by the address of their parameter's handle, with how
/// to put back what is no tensor (the count of steps).
struct StateOfParameter {
  void* key = nullptr;
  Tensors tensors;
};

/// @throws InfinityBatchError for an optimizer whose states are of a type that LibTorch does not have
std::vector<StateOfParameter> states_of(torch::optim::Optimizer& stock);

/// Bytes of all states.
std::int64_t state_bytes(const Optimizer& optimizer);

/// Moves states to where their parameters are.
void move_states(const Optimizer& optimizer);

}  // namespace speedtorch::infinity
