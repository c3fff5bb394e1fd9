/// CUDA where there is a driver: LibTorch's CUDA half is loaded on demand, never linked.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "speedtorch/cuda_runtime.h"

namespace speedtorch {

/// Looks once a process: the driver, a device, and then loads LibTorch's CUDA library (0.5-0.7 s and 470 MB,
/// which is why programs do not link it).
const CudaStatus& cuda_status();

/// Whether LibTorch's error is of CUDA's memory: of its caching allocator or of the runtime.
bool is_cuda_out_of_memory(const c10::Error& error);

/// The GPU that `device` names, with its number: the current one for `cuda`, and for `cpu`, which a
/// TableOptions names by default. @throws PlacementError naming `what` and `device` where there is no such
/// GPU
at::Device gpu_of(at::Device device, const std::string& what);

/// One sentence: what needs CUDA, what was found, what is missing, and the cure.
std::string cuda_refusal(const std::string& what);

/// @throws PlacementError naming `what`, what was found and what is missing, where there is no usable GPU.
void require_cuda(const std::string& what);

/// Waits until everything queued on the device is done; nothing without CUDA.
void synchronize_cuda(at::Device device);

/// What is in use now; zeros without CUDA. Initialises LibTorch's CUDA half. Not yet run on a GPU.
/// @throws PlacementError for a GPU that is not there
CudaMemory cuda_memory(at::Device device);

/// Free memory and level-2 cache of a device, bytes; 0 without CUDA.
/// @throws PlacementError for a GPU that is not there
std::int64_t cuda_free_bytes(at::Device device);
std::int64_t cuda_cache_bytes(at::Device device);

}  // namespace speedtorch
