/// The calls of the CUDA runtime. A build without CUDA takes their definitions from cuda_absent.cpp. For the
/// library's own files, except for what speedtorch/cuda.h makes public.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace speedtorch {

/// The process's findings on CUDA.
struct CudaStatus {
  bool available = false;
  bool emulated = false;  ///< the runtime is the tests' substitute, on which times mean nothing
  int devices = 0;
  std::vector<std::string> names;    ///< of the devices
  std::vector<std::string> bus_ids;  ///< PCI bus IDs of the devices, for NVML
  std::string found;        ///< what is there: "LibTorch 2.11.0 built for CUDA 13.0, no NVIDIA driver"
  std::string missing;      ///< what is missing, as in "libcuda.so.1 (the NVIDIA driver)"; empty if available
  std::string cure;         ///< what to do about it; empty if available
  int runtime_version = 0;  ///< as CUDA numbers it: 13000 is 13.0; 0 without CUDA
  int driver_version = 0;
};

/// A device's memory, bytes.
struct CudaMemory {
  std::int64_t used = 0;           ///< of the whole device, by all processes, as the driver reports it
  std::int64_t reserved = 0;       ///< by LibTorch's caching allocator in this process
  std::int64_t allocated = 0;      ///< the part of `reserved` that is handed out
  std::int64_t most_reserved = 0;  ///< the peak of `reserved` since the process began
};

/// True if the library loads LibTorch's CUDA library before main(), provided that there is a driver. By
/// default it does: LibTorch looks for that library once, at the process's first at::manual_seed(),
/// backward() or is_pinned(), and never finds it if it is loaded later. Loading does not initialise CUDA.
///
/// A program that calls cuda_status() before all of those may define this function to return false. It then
/// starts sooner.
bool loads_cuda_before_main();

/// True if this build has the CUDA kernels.
bool built_with_cuda();

/// Probes the driver, the devices and LibTorch's CUDA library, and loads the last.
CudaStatus probe_cuda();

/// These calls need a process whose CUDA is available (cuda_status()) and a GPU that gpu_of() has checked.
/// @throws CudaError
namespace cuda_runtime {

at::Device current_gpu();
void synchronize(at::Device gpu);
CudaMemory memory(at::Device gpu);
std::int64_t free_bytes(at::Device gpu);
std::int64_t cache_bytes(at::Device gpu);
/// Returns the unused blocks of LibTorch's caching allocator to the driver. Does nothing without CUDA.
void empty_cache();

}  // namespace cuda_runtime
}  // namespace speedtorch
