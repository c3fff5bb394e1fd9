/// The gradients of a batch: the sum of those of its micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// Keeps its sums apart from the parameters' `.grad`. Only publish() changes those, so a batch that fails
/// half-way leaves them unchanged. Each function allocates before it changes anything.
class GradientSum {
 public:
  /// @param parameters distinct; all require a gradient
  explicit GradientSum(Tensors parameters);

  [[nodiscard]] const Tensors& parameters() const { return parameters_; }

  /// Adds one gradient per parameter; undefined: none. Dense gradients are added in place; the first one is
  /// taken over if nothing else shares its memory. Strong exception guarantee.
  void add(Tensors gradients);

  /// Multiplies the sums by `factor`. Strong exception guarantee.
  void scale(double factor);

  /// Adds the sums to the parameters' gradients and clears them. Strong exception guarantee.
  void publish();

  /// Returns the sums and clears them: one per parameter, undefined if no micro-batch had one.
  Tensors take();

 private:
  void fold();
  Tensors parameters_;
  Tensors sums_;   ///< of the current block of at most kBlock micro-batches
  Tensors total_;  ///< of the blocks before
  int in_sums_ = 0;
};

}  // namespace speedtorch::infinity
