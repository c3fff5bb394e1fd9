#include "speedtorch/memory/cuda_registration.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <string>

#include "speedtorch/error.h"
#include "speedtorch/system/limits.h"

namespace speedtorch {
namespace {

/// The limit on locked memory, if it is below `bytes`. Most drivers ignore it; with one that does not, it is
/// the cause.
std::string locked_limit(std::size_t bytes) {
  std::string text;
  for (const auto& limit : locked_memory_limit()) {
    if (limit.free < static_cast<std::int64_t>(bytes))
      text += "; " + std::to_string(limit.free) + " bytes are free under " + limit.name;
  }
  return text;
}

}  // namespace

CudaRegistration::CudaRegistration(std::span<std::byte> pages, unsigned flags, at::Device device)
    : pages_(pages), device_(device) {
  const c10::DeviceGuard guard(device);
  const auto error = cudaHostRegister(pages.data(), pages.size(), flags);
  if (error != cudaSuccess) {
    cudaGetLastError();  // not sticky: the next launch must not report it
    throw MemoryError("cannot pin " + std::to_string(pages.size()) +
                      " bytes: cudaHostRegister: " + cudaGetErrorString(error) + locked_limit(pages.size()));
  }
  void* seen_by_device = nullptr;
  if (cudaHostGetDevicePointer(&seen_by_device, pages.data(), 0) != cudaSuccess ||
      seen_by_device != pages.data()) {
    cudaGetLastError();
    cudaHostUnregister(pages.data());
    throw MemoryError(
        "this GPU does not see pinned host memory at the host's address; kernels cannot use it in place");
  }
}

/// Waits for kernels of `device` that may still use the pages. A destructor cannot report errors, such as
/// those of a process that has unloaded CUDA at its end.
CudaRegistration::~CudaRegistration() {
  int current = -1;
  cudaGetDevice(&current);
  if (current != device_.index()) cudaSetDevice(device_.index());
  cudaDeviceSynchronize();
  // By LibTorch, because cudaSetDevice() would create a context on a GPU that this process has not used.
  if (current >= 0 && current != device_.index()) {
    try {
      c10::cuda::MaybeSetDevice(static_cast<c10::DeviceIndex>(current));
    } catch (const c10::Error&) {
    }
  }
  cudaHostUnregister(pages_.data());
  cudaGetLastError();
}

}  // namespace speedtorch
