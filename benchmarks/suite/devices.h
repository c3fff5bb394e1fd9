/// Placements and devices by the names that people give them.
#pragma once

#include <string>
#include <vector>

#include "speedtorch/placement.h"

namespace stbench {

/// @throws UsageError for a name that is none.
speedtorch::Placement placement_of(const std::string& name);

/// True for the placements that go with a CUDA device only.
bool cuda_only(const std::string& placement);

/// @throws UsageError if a placement goes with a CUDA device only and none of the devices is one
void require_gpu_for(const std::vector<std::string>& placements, const std::vector<std::string>& devices);

/// The device that --device means: `cuda` is cuda:0. @throws UsageError if there is no such device.
std::string resolve_device(const std::string& device);

}  // namespace stbench
