/// Counts the invalid indices of CUDA calls. Each device has one counter in its memory. It is created when
/// first needed (also while a graph is captured) and lives as long as the process.
#pragma once

#include <c10/core/Device.h>

#include "speedtorch/kernels/index_errors.h"

namespace speedtorch {

/// Returns the counter of a CUDA device, for kernels on it. Without a number, `device` is the current GPU.
/// @throws CudaError
kernels::IndexErrors* cuda_index_errors(at::Device device);

/// Returns what was counted since the last call. Waits for the device. Thread-safe.
///
/// The counter is never reset, so invalid indices of calls that other threads start meanwhile are reported
/// now or the next time. Of those, `seen_...` and `first_position` may belong to an index that was reported
/// before.
/// @throws CudaError
kernels::IndexErrors take_cuda_index_errors(at::Device device);

}  // namespace speedtorch
