/// The reference that the suites compare steps with: each optimizer on one element, in double precision, as
/// its paper has it. It shares no code with the update functors of the kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"

namespace stbench {

/// An optimizer of the suites: its name in reports, and its options.
struct NamedOptimizer {
  std::string name;
  speedtorch::UpdateOptions options;
};

/// All of them, with torch's defaults. AMSGrad is Adam with that option, Momentum is SGD with 0.9, Nesterov
/// adds that option.
const std::vector<NamedOptimizer>& named_optimizers();
std::vector<std::string> optimizer_names();
/// @throws std::out_of_range for a name that the command line would refuse.
const speedtorch::UpdateOptions& optimizer_named(const std::string& name);

/// Does step number `step` (from 1) on one element, with its states in the order of
/// speedtorch::state_names().
void reference_step(const speedtorch::UpdateOptions& options, std::int64_t step, double& param, double grad,
                    std::span<double> states);

}  // namespace stbench
