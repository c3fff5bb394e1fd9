/// CUDA, if this machine has it. The library loads LibTorch's CUDA half on demand and never links it.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

#include "speedtorch/cuda_runtime.h"

namespace speedtorch {

/// Returns what the process found of CUDA. The first call probes the driver and the devices and loads
/// LibTorch's CUDA library (0.5-0.7 s, 470 MB: the reason why programs do not link it).
const CudaStatus& cuda_status();

/// True if LibTorch's error says that CUDA is out of memory, in the caching allocator or in the runtime.
bool is_cuda_out_of_memory(const c10::Error& error);

/// Returns the GPU that `device` names, with its number. `cuda` without a number and `cpu`, the default of
/// TableOptions, mean the current GPU.
/// @throws PlacementError naming `what` and `device` if there is no such GPU
at::Device gpu_of(at::Device device, const std::string& what);

/// One sentence: what needs CUDA, what was found, what is missing, and the cure.
std::string cuda_refusal(const std::string& what);

/// @throws PlacementError naming `what`, what was found and what is missing, if there is no usable GPU
void require_cuda(const std::string& what);

/// Waits until everything queued on the device is done. Without CUDA it returns at once.
void synchronize_cuda(at::Device device);

/// Returns the memory in use now; zeros without CUDA. Initialises LibTorch's CUDA half. Not yet run on a GPU.
/// @throws PlacementError if there is no such GPU
CudaMemory cuda_memory(at::Device device);

/// Free memory and level-2 cache of a device, bytes; 0 without CUDA.
/// @throws PlacementError if there is no such GPU
std::int64_t cuda_free_bytes(at::Device device);
std::int64_t cuda_cache_bytes(at::Device device);

}  // namespace speedtorch
