// Launches of kernels.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "tests/emulated_gpu/runtime/runtime.h"

namespace emulated_gpu {

struct LaunchShape {
  dim3 grid, block;
  std::size_t dynamic_shared = 0;
};

/// Checks a launch as CUDA does and queues it. @param function the program's pointer to the kernel
cudaError_t launch(Runtime& all, Lock& lock, const void* function, const LaunchShape& shape, void** arguments,
                   cudaStream_t stream);

/// Returns how many blocks of a kernel a multiprocessor holds.
int blocks_of_multiprocessor(const Kernel& kernel, int threads, std::size_t dynamic_shared);

}  // namespace emulated_gpu
