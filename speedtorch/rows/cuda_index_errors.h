/// Where bad indices of CUDA calls are counted: one counter a device, in its memory, made when it is first
/// wanted (also while a graph is captured) and kept as long as the process.
#pragma once

#include <c10/core/Device.h>

#include "speedtorch/kernels/index_errors.h"

namespace speedtorch {

/// The counter of a CUDA device, for kernels on it; a device without a number is the current one.
/// @throws CudaError
kernels::IndexErrors* cuda_index_errors(at::Device device);

/// What was counted since the last call, told once: one thread at a time takes. Waits for the device. The
/// counter is never set back, so bad indices of calls that other threads start meanwhile are told now or the
/// next time; of those `seen_...` and `first_position` may then be of one that was told before.
/// @throws CudaError
kernels::IndexErrors take_cuda_index_errors(at::Device device);

}  // namespace speedtorch
