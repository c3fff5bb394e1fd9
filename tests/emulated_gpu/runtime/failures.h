// Calls that fail because EMULATED_GPU_FAIL says so.
#pragma once
#include <cuda_runtime_api.h>

namespace emulated_gpu {

/// Counts a call of a runtime function and returns the error it is to fail with, or success.
cudaError_t injected_failure(const char* name);

}  // namespace emulated_gpu
