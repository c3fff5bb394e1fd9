/// Allocates memory in any placement.
#pragma once

#include <memory>
#include <string>

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// Returns `bytes` > 0 bytes in `placement`. `device` is the GPU of `pinned` and `device` memory; without a
/// number it is the current one (gpu_of(), speedtorch/cuda.h). `mapped` is an unnamed file in `folder` that
/// is deleted with its owner. Contents are unspecified.
/// @throws LimitError, a MemoryError, before it allocates, if fewer bytes are free
/// (speedtorch/system/limits.h); MemoryError with what was asked for and what the system answered;
/// PlacementError if CUDA is needed and absent
std::shared_ptr<Memory> allocate(Placement placement, std::int64_t bytes, at::Device device = at::kCPU,
                                 const std::string& folder = {});

}  // namespace speedtorch
