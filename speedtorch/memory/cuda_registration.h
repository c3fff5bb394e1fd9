/// Host pages that a GPU reads or writes in place.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <span>

namespace speedtorch {

/// Keeps pages registered with CUDA. The pages must outlive it. The destructor waits for the device.
class CudaRegistration {
 public:
  /// @param flags of cudaHostRegister
  /// @param device with its number
  /// @throws MemoryError if the driver refuses, or if the GPU does not see the pages at the host's address.
  /// Leaves no CUDA error behind.
  CudaRegistration(std::span<std::byte> pages, unsigned flags, at::Device device);
  ~CudaRegistration();
  CudaRegistration(const CudaRegistration&) = delete;
  CudaRegistration& operator=(const CudaRegistration&) = delete;
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  std::span<std::byte> pages_;
  at::Device device_;
};

}  // namespace speedtorch
