/// The CUDA kernels' calls of the runtime: errors as exceptions, a device's shape, kinds of memory. Needs the
/// CUDA runtime's header; C++17.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>

#include "speedtorch/kernels/cuda/launch.h"
#include "speedtorch/kernels/cuda/plan.h"
#include "speedtorch/kernels/error.h"

namespace speedtorch::kernels {

/// @throws CudaError naming `call` unless `status` is success. Clears the error, which the next caller would
/// otherwise report as its own.
inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw CudaError(call, cudaGetErrorName(status), cudaGetErrorString(status));
}

inline DeviceShape ask_device_shape(int device, const void* kernel) {
  DeviceShape shape;
  check_cuda(cudaDeviceGetAttribute(&shape.sms, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute(cudaDevAttrMultiProcessorCount)");
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&shape.blocks_per_sm, kernel, kBlockThreads, 0),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return shape;
}

/// The shape of the current device for a kernel, cached per device; a race asks twice. The kernel itself is
/// the template's argument, so each kernel has its own cache.
template <auto kKernel>
DeviceShape device_shape() {
  static std::array<std::atomic<DeviceShape>, 64> known{};
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const auto* const kernel = reinterpret_cast<const void*>(kKernel);
  const auto slot = static_cast<std::size_t>(device);
  if (slot >= known.size()) return ask_device_shape(device, kernel);
  DeviceShape shape = known[slot].load(std::memory_order_relaxed);
  if (shape.blocks_per_sm == 0) {
    shape = ask_device_shape(device, kernel);
    known[slot].store(shape, std::memory_order_relaxed);
  }
  return shape;
}

/// The kind of memory as the caller states it, or as the runtime reports it. Memory unknown to CUDA is the
/// host's.
inline MemoryKind memory_kind_of(MemoryKind said, const void* data) {
  if (said != MemoryKind::ask) return said;
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  const bool device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return device ? MemoryKind::device : MemoryKind::host;
}

/// The side of a movement that crosses the link. If both do, the side that is read, because reads stall.
inline Link link_of(const CudaLaunch& launch, const void* from, const void* to) {
  if (memory_kind_of(launch.from, from) == MemoryKind::host) return Link::from;
  return memory_kind_of(launch.to, to) == MemoryKind::host ? Link::to : Link::none;
}

}  // namespace speedtorch::kernels
