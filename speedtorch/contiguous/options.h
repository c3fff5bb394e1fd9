/// The options of ContiguousOptimizer and of its steps, and the state that it keeps of a parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/contiguous/parameters.h"

namespace speedtorch {

/// How a step treats a parameter whose gradient was not written since it was last zeroed.
enum class Unused {
  skip,  ///< leaves it alone and does not count the step, as torch does if the gradient is none
  zero,  ///< steps it with a gradient of zeros: weight decay and momentum still apply
};

struct OptimizerOptions {
  ContiguousOptions buffers = {};
  Unused unused = Unused::skip;
};

/// Further work in the pass of a step, in this order: unscale, clip each element, clip the norm, step, zero.
struct StepOptions {
  double inv_scale = 1;                  ///< multiplies the gradients: 1 / the scale of the loss
  std::optional<double> max_value = {};  ///< clamps each element to [-max_value, max_value]
  std::optional<double> max_norm = {};   ///< as torch's clip_grad_norm_; costs one pass over the gradients
  bool zero_grad = false;                ///< zero the gradients afterwards, even if the step is skipped
  bool skip_non_finite = false;  ///< skip the step if a gradient is not finite before clamping; costs one
                                 ///< pass, two with max_value
  at::Tensor found_inf = {};     ///< one element, as of torch's GradScaler: skip the step if it is not zero
};

/// The optimizer state of one parameter, under torch's names. Parameters of half precision also have
/// `master`.
struct ParameterState {
  std::int64_t steps = 0;
  std::vector<std::pair<std::string, at::Tensor>> tensors;  ///< each of the parameter's shape
};

}  // namespace speedtorch
