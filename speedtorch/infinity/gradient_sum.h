/// The gradients of a batch, added up from those of its micro-batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// Sums beside the parameters' `.grad`, which are only touched by publish(): a batch that fails half-way
/// leaves them as they were. What can run out of memory is done before anything is changed.
class GradientSum {
 public:
  /// @param parameters each once; all require a gradient
  explicit GradientSum(Tensors parameters);

  [[nodiscard]] const Tensors& parameters() const { return parameters_; }

  /// Adds one gradient a parameter (undefined: none). Dense ones are added in place; the first is taken over
  /// where nothing else holds it. When it throws, the sums are as before.
  void add(Tensors gradients);

  /// Multiplies the sums by `factor`. When it throws, they are as before.
  void scale(double factor);

  /// Adds the sums to the parameters' gradients and forgets them. When it throws, neither has changed.
  void publish();

  /// The sums themselves, taken out: one a parameter, undefined where no micro-batch had one.
  Tensors take();

 private:
  void fold();
  Tensors parameters_;
  Tensors sums_;   ///< of the last micro-batches, at most kBlock
  Tensors total_;  ///< of those before
  int in_sums_ = 0;
};

}  // namespace speedtorch::infinity
