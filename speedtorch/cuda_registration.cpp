#include "speedtorch/cuda_registration.h"

#include <c10/core/DeviceGuard.h>
#include <cuda_runtime_api.h>

#include <string>

#include "speedtorch/error.h"

namespace speedtorch {

CudaRegistration::CudaRegistration(std::span<std::byte> pages, unsigned flags, at::Device device)
    : pages_(pages), device_(device) {
  const c10::DeviceGuard guard(device);
  const auto error = cudaHostRegister(pages.data(), pages.size(), flags);
  if (error != cudaSuccess) {
    cudaGetLastError();  // not sticky: the next launch must not report it
    throw MemoryError("cannot pin " + std::to_string(pages.size()) +
                      " bytes: cudaHostRegister: " + cudaGetErrorString(error));
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

/// Kernels of `device` may still be at the pages: they are waited for. Nobody is there to hear of an error,
/// such as that of a process which ends and has unloaded CUDA.
CudaRegistration::~CudaRegistration() {
  int current = -1;
  cudaGetDevice(&current);
  if (device_.has_index()) cudaSetDevice(device_.index());
  cudaDeviceSynchronize();
  if (current >= 0) cudaSetDevice(current);
  cudaHostUnregister(pages_.data());
  cudaGetLastError();
}

}  // namespace speedtorch
