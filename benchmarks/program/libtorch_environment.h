/// The part of a report on LibTorch and CUDA.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/environment.h"

namespace stbench {

/// The sources of the environment and the clocks, with CUDA's list of its devices.
harness::EnvironmentSources environment_sources();

/// `libtorch`: version, processor capability, threads, the OpenMP settings that
/// matter.
nlohmann::ordered_json libtorch_environment();

/// `cuda`: runtime and driver version, devices, what was found and what is missing.
nlohmann::ordered_json cuda_environment();

}  // namespace stbench
