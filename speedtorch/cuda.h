/// CUDA where there is a driver: LibTorch's CUDA half is loaded on demand, never linked.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

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

/// Looks once a process: the driver, a device, and then loads LibTorch's CUDA library (0.5-0.7 s and 470 MB,
/// which is why programs do not link it).
const CudaStatus& cuda_status();

/// Whether the library loads LibTorch's CUDA library before main() where there is a driver, which it does:
/// LibTorch looks for it once, at the first at::manual_seed(), backward() or is_pinned() of a process, and
/// what is loaded later it never finds. CUDA itself is not initialised then. A program that calls
/// cuda_status() before all those may define this function to return false, and starts sooner.
bool loads_cuda_before_main();

/// Whether LibTorch's error is of CUDA's memory: of its caching allocator or of the runtime.
bool is_cuda_out_of_memory(const c10::Error& error);

/// The GPU that `device` names, with its number: the current one for `cuda`, and for `cpu`, which a Home
/// names by default. @throws PlacementError naming `what` and `device` where there is no such GPU
at::Device gpu_of(at::Device device, const std::string& what);

/// One sentence: what needs CUDA, what was found, what is missing, and the cure.
std::string cuda_refusal(const std::string& what);

/// @throws PlacementError naming `what`, what was found and what is missing, where there is no usable GPU.
void require_cuda(const std::string& what);

/// Waits until everything queued on the device is done; nothing without CUDA.
void synchronize_cuda(at::Device device);

/// A device's memory, bytes.
struct CudaMemory {
  std::int64_t used = 0;           ///< of the whole device, by every process, as its driver tells
  std::int64_t reserved = 0;       ///< by LibTorch's caching allocator in this process
  std::int64_t allocated = 0;      ///< of that, handed out
  std::int64_t most_reserved = 0;  ///< since the process began
};

/// What is in use now; zeros without CUDA. Initialises LibTorch's CUDA half. Not yet run on a GPU.
/// @throws PlacementError for a GPU that is not there
CudaMemory cuda_memory(at::Device device);

/// Free memory and level-2 cache of a device, bytes; 0 without CUDA.
/// @throws PlacementError for a GPU that is not there
std::int64_t cuda_free_bytes(at::Device device);
std::int64_t cuda_cache_bytes(at::Device device);

}  // namespace speedtorch
