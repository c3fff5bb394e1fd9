/// Makes a step of several optimizers atomic.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "speedtorch/infinity/optimizer.h"
#include "speedtorch/memory/memory.h"

namespace speedtorch::infinity {

/// Before a step, copies parameters and states into host memory of the library, which is reused by later
/// steps. Copies them back if the step runs out of memory. This is necessary because LibTorch's optimizers
/// allocate during a step, parameter by parameter, and may fail between two parameters.
class StepGuard {
 public:
  /// Steps all optimizers. If memory runs out, rolls back, empties LibTorch's cache and tries once more. If
  /// it throws, parameters, states and gradients are as before. A single optimizer that allocates nothing is
  /// stepped directly, without a copy and without rollback. @throws OutOfMemory if the second attempt fails
  /// too; what a step throws
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
