/// Creates LibTorch's C++ optimizers from our options. LibTorch has five of our ten; for the other five,
/// callers that need a `torch::optim::Optimizer` get ours.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"

namespace torch::optim {
class Optimizer;
}

namespace stbench {

/// A LibTorch optimizer and its states. The parameters are leafs whose gradients are set.
class LibtorchOptimizer {
 public:
  /// SparseAdam becomes Adam, the nearest that LibTorch has. @throws std::logic_error if it has none
  LibtorchOptimizer(const speedtorch::UpdateOptions& options, std::vector<at::Tensor> parameters);
  ~LibtorchOptimizer();
  LibtorchOptimizer(LibtorchOptimizer&&) noexcept;

  void step();
  void zero_grad();
  /// Sets the learning rate of the following steps.
  void set_rate(double rate);
  /// Sets the step count and the states of a parameter, in the order of speedtorch::state_names(). The
  /// optimizer works on these tensors from then on.
  void set_state(const at::Tensor& parameter, std::int64_t steps, const std::vector<at::Tensor>& states);

 private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

/// The options that LibTorch's optimizer implements: Adam's for SparseAdam, else the same.
speedtorch::UpdateOptions libtorch_equivalent(const speedtorch::UpdateOptions& options);

/// Why LibTorch has no such optimizer in C++; empty if it has.
std::string libtorch_lacks(const std::string& optimizer);

/// An optimizer for SpeedTorch's flow, which takes any torch::optim::Optimizer: LibTorch's as above, or
/// speedtorch::optim's if LibTorch has none.
std::unique_ptr<torch::optim::Optimizer> optimizer_to_swap(const speedtorch::UpdateOptions& options,
                                                           std::vector<at::Tensor> parameters);

/// Sets the learning rate of all parameters for the following steps.
void set_rate(torch::optim::Optimizer& optimizer, double rate);

/// A leaf on the same memory that requires a gradient.
at::Tensor leaf_on(const at::Tensor& table);
/// A leaf without rows, for rows of a table.
at::Tensor leaf_for(const at::Tensor& table);

}  // namespace stbench
