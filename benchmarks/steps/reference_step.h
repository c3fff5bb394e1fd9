/// What a step of each optimizer does to one element, in double precision and in the words of the papers: the
/// reference that the suites compare with. Not a line of it is shared with the update bodies of kernels/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"

namespace stbench {

/// An optimizer of the suites: its options, under the name that reports have.
struct NamedOptimizer {
  std::string name;
  speedtorch::UpdateOptions options;
};

/// All of them: torch's defaults; AMSGrad is Adam with its switch, Momentum SGD with 0.9, Nesterov that with
/// its switch.
const std::vector<NamedOptimizer>& named_optimizers();
std::vector<std::string> optimizer_names();
/// @throws std::out_of_range for a name that the command line would refuse.
const speedtorch::UpdateOptions& optimizer_named(const std::string& name);

/// Step number `step` (from 1) of one element, its states in the order of speedtorch::state_names().
void reference_step(const speedtorch::UpdateOptions& options, std::int64_t step, double& param, double grad,
                    std::span<double> states);

}  // namespace stbench
