/// The placements that need CUDA, on the GPU that `device` names (gpu_of(), speedtorch/cuda.h). Without CUDA
/// these functions throw PlacementError.
#pragma once

#include "speedtorch/memory/block.h"

namespace speedtorch {

/// Host memory that kernels on `device` read and write in place: the library's own pages (huge if possible),
/// registered with CUDA. @throws MemoryError, PlacementError
std::shared_ptr<Memory> allocate_pinned(std::int64_t bytes, at::Device device);

/// Registers existing pages, which then live as long as the result. @throws MemoryError, PlacementError
std::shared_ptr<Memory> pin(std::shared_ptr<Memory> pages, at::Device device);

/// Memory of the GPU from LibTorch's caching allocator, so that its caps and statistics count.
/// @throws MemoryError, PlacementError
std::shared_ptr<Memory> allocate_device(std::int64_t bytes, at::Device device);

}  // namespace speedtorch
