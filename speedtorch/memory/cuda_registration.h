/// Host pages that a GPU reads or writes in place.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <span>

namespace speedtorch {

/// Pages registered with CUDA as long as the object lives; they must live longer. The end waits for the
/// device.
class CudaRegistration {
 public:
  /// @param flags of cudaHostRegister @param device with its number @throws MemoryError where the driver
  /// refuses, or the GPU does not see the pages at the host's address. No CUDA error is left behind.
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
