/// What a report says of LibTorch and CUDA.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/environment.h"

namespace stbench {

/// Where the environment and the clocks are read from, with what CUDA says of its devices.
harness::EnvironmentSources environment_sources();

/// `libtorch`: version, processor capability, threads, the OpenMP settings that
/// matter.
nlohmann::ordered_json libtorch_environment();

/// `cuda`: runtime and driver version, devices, what was found and what is missing.
nlohmann::ordered_json cuda_environment();

}  // namespace stbench
