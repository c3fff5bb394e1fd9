/// LibTorch's own optimizers by our options: what its users have in C++. Five of ours; the others it lacks,
/// and who steps any torch::optim::Optimizer takes this library's instead.
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

/// An optimizer of LibTorch's and what its states are. The parameters are leafs whose gradients are set.
class LibtorchOptimizer {
 public:
  /// SparseAdam becomes Adam: the nearest that LibTorch has. @throws std::logic_error where it has none
  LibtorchOptimizer(const speedtorch::UpdateOptions& options, std::vector<at::Tensor> parameters);
  ~LibtorchOptimizer();
  LibtorchOptimizer(LibtorchOptimizer&&) noexcept;

  void step();
  void zero_grad();
  /// The learning rate of the steps that follow.
  void set_rate(double rate);
  /// The states of a parameter, in the order of speedtorch::state_names(), which it shares from then on, and
  /// its count.
  void set_state(const at::Tensor& parameter, std::int64_t steps, const std::vector<at::Tensor>& states);

 private:
  speedtorch::UpdateOptions options_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

/// What such an optimizer of LibTorch's does: Adam's options for SparseAdam's, else the same.
speedtorch::UpdateOptions libtorch_equivalent(const speedtorch::UpdateOptions& options);

/// Why LibTorch has no such optimizer in C++; empty where it has.
std::string libtorch_lacks(const std::string& optimizer);

/// What SpeedTorch's flow has around it, which takes any torch::optim::Optimizer: LibTorch's as above, or
/// speedtorch::optim's where LibTorch lacks it.
std::unique_ptr<torch::optim::Optimizer> optimizer_to_swap(const speedtorch::UpdateOptions& options,
                                                           std::vector<at::Tensor> parameters);

/// The learning rate of the steps that follow, of all parameters.
void set_rate(torch::optim::Optimizer& optimizer, double rate);

/// A leaf on the same memory, which requires a gradient.
at::Tensor leaf_on(const at::Tensor& table);
/// A leaf without rows, for those of a table.
at::Tensor leaf_for(const at::Tensor& table);

}  // namespace stbench
