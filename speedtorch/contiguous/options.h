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

/// A parameter whose gradient nobody wrote since it was last zeroed.
enum class Unused {
  skip,  ///< is left alone, its step not counted: as torch does where the gradient is none
  zero,  ///< is stepped by a gradient of zeros: decays, and its momentum goes on
};

struct OptimizerOptions {
  ContiguousOptions buffers = {};
  Unused unused = Unused::skip;
};

/// What else is done in the pass of a step, in this order: unscale, clip each element, clip the norm, step,
/// zero.
struct StepOptions {
  double inv_scale = 1;                  ///< of a loss that was scaled
  std::optional<double> max_value = {};  ///< clamps each element to [-max_value, max_value]
  std::optional<double> max_norm = {};   ///< as torch's clip_grad_norm_; costs a pass over the gradients
  bool zero_grad = false;                ///< afterwards, also where the step is skipped
  bool skip_non_finite = false;          ///< no step where a gradient is, clamped or not; costs a pass, with
                                         ///< max_value two
  at::Tensor found_inf = {};             ///< one number, as torch's GradScaler has it: no step where not zero
};

/// What a step keeps of a parameter, by torch's names; `master` of a parameter of half precision.
struct ParameterState {
  std::int64_t steps = 0;
  std::vector<std::pair<std::string, at::Tensor>> tensors;  ///< of the parameter's shape
};

}  // namespace speedtorch
