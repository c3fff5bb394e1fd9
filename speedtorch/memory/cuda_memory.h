/// The placements that need CUDA, on the GPU that `device` names (gpu_of(), speedtorch/cuda.h). Without CUDA
/// they throw PlacementError.
#pragma once

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// Host memory that kernels on `device` read and write in place: our own pages (huge where the system gives
/// them), registered with CUDA. @throws MemoryError, PlacementError
std::shared_ptr<Memory> allocate_pinned(std::int64_t bytes, at::Device device);

/// The same of pages that are there already; they live as long as the result. @throws MemoryError,
/// PlacementError
std::shared_ptr<Memory> pin(std::shared_ptr<Memory> pages, at::Device device);

/// Memory of the GPU, through LibTorch's caching allocator, so that its caps and statistics count.
/// @throws MemoryError, PlacementError
std::shared_ptr<Memory> allocate_device(std::int64_t bytes, at::Device device);

}  // namespace speedtorch
