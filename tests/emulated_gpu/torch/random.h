// Random numbers of operators on the emulated device.
#pragma once
#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

#include "tests/emulated_gpu/torch/call.h"

namespace emulated_gpu {

/// Returns the seed of a CPU generator for one call that draws, or nothing if the operator draws nothing. It
/// depends on the seed and the offset of the call's CUDA generator only, and moves the offset on.
/// @throws c10::Error if the generator is none of CUDA's
std::optional<std::uint64_t> draw_seed(const Call& call);

}  // namespace emulated_gpu
