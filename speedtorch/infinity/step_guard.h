/// A step of optimizers that happens whole or not at all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "speedtorch/infinity/optimizer.h"
#include "speedtorch/memory/memory.h"

namespace speedtorch::infinity {

/// Copies what a step changes (parameters and states) into host memory of the library's own, which is kept
/// from step to step and is none of the device's, and copies it back where the step runs out of memory.
/// LibTorch's optimizers allocate in each step, a parameter at a time, so that one may stop between two
/// parameters.
class StepGuard {
 public:
  /// The step of all of them. Where memory runs out, all is put back, LibTorch's cache is emptied and it is
  /// made once more. @throws OutOfMemory where that fails too; and what a step throws, both with parameters,
  /// states and gradients as before. Of one optimizer that allocates nothing no copy is made, and what its
  /// step throws is its own matter
  void step(const std::vector<Optimizer>& optimizers);

  [[nodiscard]] std::int64_t bytes() const { return memory_ ? memory_->bytes() : 0; }  ///< held on the host
  [[nodiscard]] std::int64_t taken_back() const { return taken_back_; }                ///< steps, so far

 private:
  struct Before;
  Tensors copied_to_host(const Tensors& tensors);
  std::shared_ptr<Memory> memory_;
  std::int64_t taken_back_ = 0;
};

}  // namespace speedtorch::infinity
