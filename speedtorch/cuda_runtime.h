/// The calls of the CUDA runtime, without which this build's are those of cuda_absent.cpp. For the library's
/// own files, but for what speedtorch/cuda.h uses of it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace speedtorch {

/// What was found when the process looked for CUDA.
struct CudaStatus {
  bool available = false;
  bool emulated = false;  ///< the runtime is the tests' substitute, on which no time means anything
  int devices = 0;
  std::vector<std::string> names;  ///< of the devices
  std::vector<std::string>
      bus_ids;              ///< their places on the PCI bus, by which the driver's library finds them
  std::string found;        ///< what is there: "LibTorch 2.11.0 built for CUDA 13.0, no NVIDIA driver"
  std::string missing;      ///< empty where available: "libcuda.so.1 (the NVIDIA driver)"
  std::string cure;         ///< empty where available: what to do about it
  int runtime_version = 0;  ///< as CUDA numbers it, 13000 = 13.0; 0 without CUDA
  int driver_version = 0;
};

/// A device's memory, bytes.
struct CudaMemory {
  std::int64_t used = 0;           ///< of the whole device, by every process, as its driver tells
  std::int64_t reserved = 0;       ///< by LibTorch's caching allocator in this process
  std::int64_t allocated = 0;      ///< of that, handed out
  std::int64_t most_reserved = 0;  ///< since the process began
};

/// Whether the library loads LibTorch's CUDA library before main() where there is a driver, which it does:
/// LibTorch looks for it once, at the first at::manual_seed(), backward() or is_pinned() of a process, and
/// what is loaded later it never finds. CUDA itself is not initialised then. A program that calls
/// cuda_status() before all those may define this function to return false, and starts sooner.
bool loads_cuda_before_main();

/// True if this build has the CUDA kernels.
bool built_with_cuda();

/// Probes the driver, the devices and LibTorch's CUDA library, and loads the last.
CudaStatus probe_cuda();

/// For a process whose CUDA is available (cuda_status()), and a GPU that gpu_of() has checked.
/// @throws CudaError
namespace cuda_runtime {

at::Device current_gpu();
void synchronize(at::Device gpu);
CudaMemory memory(at::Device gpu);
std::int64_t free_bytes(at::Device gpu);
std::int64_t cache_bytes(at::Device gpu);

}  // namespace cuda_runtime
}  // namespace speedtorch
