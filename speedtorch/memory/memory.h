/// Memory of any placement.
#pragma once

#include <memory>
#include <string>

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// Memory of `bytes` > 0 bytes in `placement`. `device` is the GPU of `pinned` and `device` memory, the
/// current one where it names none (gpu_of(), speedtorch/cuda.h). `mapped` is an unnamed file in `folder`,
/// which goes with its owner. Contents are unspecified.
/// @throws LimitError, a MemoryError, before anything is taken, where less is free than was asked
/// (speedtorch/system/limits.h); MemoryError naming what was asked and what the system answered;
/// PlacementError where CUDA is needed and absent.
std::shared_ptr<Memory> allocate(Placement placement, std::int64_t bytes, at::Device device = at::kCPU,
                                 const std::string& folder = {});

}  // namespace speedtorch
