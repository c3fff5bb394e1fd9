/// Two CPUs may be one core at the moment: this measures it.
#pragma once

#include <functional>
#include <optional>

#include "speedtorch/system/system_files.h"

namespace stbench::harness::doctor {

/// Does so much arithmetic that a core's multipliers are busy and leave nothing to another hardware thread.
/// @returns its seconds, some 0.5e-3
double busy_multipliers();

/// How many times as long `work` takes on two CPUs at once as on one alone: 1 for two cores. A virtual
/// machine's host may run two CPUs as the hardware threads of one core; then it is about 2, for seconds or
/// minutes. Takes 16 times as long as `work`, and is the least of several rounds, so that other load hardly
/// counts.
/// @param work returns its own seconds; called on both CPUs
/// @returns nothing if the process may use only one core, as far as the kernel knows, or starts no thread
std::optional<double> slowdown_of_two_cpus(const speedtorch::SystemFiles& files,
                                           const std::function<double()>& work = busy_multipliers);

}  // namespace stbench::harness::doctor
