// CUDA's declarations with default visibility, so that their definitions are exported from a library whose
// other names are hidden. Include it before any other header that includes cuda_runtime_api.h.
#pragma once
#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

#include "tests/emulated_gpu/emulated_gpu.h"
#pragma GCC visibility pop
