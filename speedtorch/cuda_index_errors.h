/// Where bad indices of CUDA calls are counted: one counter a device, in its memory, made when it is first
/// wanted (also while a graph is captured) and kept as long as the process.
#pragma once

#include <c10/core/Device.h>

#include "kernels/index_errors.h"

namespace speedtorch {

/// The counter of a CUDA device, for kernels on it. @throws CudaError
kernels::IndexErrors* cuda_index_errors(at::Device device);

/// What was counted since the last call, which empties the counter. Waits for the device.
/// @throws CudaError
kernels::IndexErrors take_cuda_index_errors(at::Device device);

}  // namespace speedtorch
