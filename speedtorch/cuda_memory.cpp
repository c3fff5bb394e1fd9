#include "speedtorch/cuda_memory.h"

#include <ATen/ops/empty.h>
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/cuda_registration.h"
#include "speedtorch/error.h"
#include "speedtorch/limits.h"
#include "speedtorch/mapping.h"

namespace speedtorch {
namespace {

/// Pages registered with CUDA: exactly the bytes asked for (LibTorch's pinned allocator rounds up to a power
/// of two).
class PinnedMemory final : public Memory {
 public:
  PinnedMemory(std::shared_ptr<Memory> pages, at::Device device)
      : Memory(pages),
        pages_(std::move(pages)),
        registration_({pages_->data(), static_cast<std::size_t>(bytes())},
                      cudaHostRegisterMapped | cudaHostRegisterPortable, device) {}
  [[nodiscard]] Placement placement() const override { return Placement::pinned; }
  [[nodiscard]] std::byte* data() const override { return pages_->data(); }
  [[nodiscard]] at::Device device() const override { return registration_.device(); }
  [[nodiscard]] int shared_fd() const override { return pages_->shared_fd(); }

 private:
  std::shared_ptr<Memory> pages_;
  CudaRegistration registration_;
};

class DeviceMemory final : public Memory {
 public:
  DeviceMemory(std::int64_t bytes, at::Device device)
      : Memory(bytes), tensor_(at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device))) {}
  [[nodiscard]] Placement placement() const override { return Placement::device; }
  [[nodiscard]] std::byte* data() const override { return static_cast<std::byte*>(tensor_.data_ptr()); }
  [[nodiscard]] at::Device device() const override { return tensor_.device(); }

 private:
  at::Tensor tensor_;
};

}  // namespace

std::shared_ptr<Memory> allocate_pinned(std::int64_t bytes, at::Device device) {
  require_cuda("pinned memory");
  require_memory("pinned memory", bytes, MemoryUse::locked);
  auto pages = allocate(Placement::hugepage, bytes);
  prefault(pages->data(), bytes);
  return pin(std::move(pages), device);
}

std::shared_ptr<Memory> pin(std::shared_ptr<Memory> pages, at::Device device) {
  require_cuda("pinned memory");
  return std::make_shared<PinnedMemory>(std::move(pages), device);
}

std::shared_ptr<Memory> allocate_device(std::int64_t bytes, at::Device device) {
  require_cuda("device memory");
  try {
    return std::make_shared<DeviceMemory>(bytes, device);
  } catch (const c10::OutOfMemoryError& error) {
    const auto free = cuda_free_bytes(device);
    if (free < bytes) throw LimitError("device memory", bytes, free, "the memory of " + device.str());
    throw MemoryError("cannot allocate " + std::to_string(bytes) + " bytes on " + device.str() + ": " +
                      error.what_without_backtrace());
  }
}

}  // namespace speedtorch
