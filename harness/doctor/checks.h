/// The checks: each a function of what it is shown. One that cannot read its source says `unknown`.
#pragma once

#include "harness/doctor/finding.h"

namespace stbench::harness::doctor {

/// The CPUs that the process may use; empty if the kernel does not tell.
std::vector<int> allowed_cpus(const speedtorch::SystemFiles& files);

/// Checks of the processors and of other load on them.
std::vector<Check> cpu_checks();
std::vector<Check> memory_checks();
/// Checks of the graphics processors. Without a driver all but the first two are `unknown`.
std::vector<Check> gpu_checks();

}  // namespace stbench::harness::doctor
