#include "speedtorch/cuda_memory.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/limits.h"
#include "speedtorch/mapping.h"

namespace speedtorch {
namespace {

/// The limit on locked memory is named where it is below what was asked: most drivers lock beside it, and
/// where one does not, this is the reason. @throws MemoryError, always
[[noreturn]] void refuse_registration(std::int64_t bytes, const std::string& answer) {
  std::string text = "cannot pin " + std::to_string(bytes) + " bytes: cudaHostRegister: " + answer;
  for (const auto& limit : locked_memory_limit()) {
    if (limit.free < bytes) text += "; " + std::to_string(limit.free) + " bytes are free under " + limit.name;
  }
  throw MemoryError(text);
}

/// Pages registered with CUDA: exactly the bytes asked for (LibTorch's pinned allocator rounds up to a power
/// of two).
class PinnedMemory final : public Memory {
 public:
  PinnedMemory(std::shared_ptr<Memory> pages, at::Device device)
      : Memory(pages->bytes()), device_(device), pages_(std::move(pages)) {
    const c10::DeviceGuard guard(device);
    const auto size = static_cast<std::size_t>(bytes());
    const auto error =
        cudaHostRegister(pages_->data(), size, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (error != cudaSuccess) {
      cudaGetLastError();  // not sticky: the next launch must not report it
      refuse_registration(bytes(), cudaGetErrorString(error));
    }
    void* seen_by_device = nullptr;
    if (cudaHostGetDevicePointer(&seen_by_device, pages_->data(), 0) != cudaSuccess ||
        seen_by_device != pages_->data()) {
      cudaGetLastError();
      cudaHostUnregister(pages_->data());
      throw MemoryError(
          "this GPU does not see pinned host memory at the host's address; kernels cannot use it in place");
    }
  }
  /// Kernels of `device` may still be at the pages: they are waited for. Nobody is there to hear of an error,
  /// such as that of a process which ends and has unloaded CUDA.
  ~PinnedMemory() override {
    int current = -1;
    cudaGetDevice(&current);
    if (device_.has_index()) cudaSetDevice(device_.index());
    cudaDeviceSynchronize();
    if (current >= 0) cudaSetDevice(current);
    cudaHostUnregister(pages_->data());
    cudaGetLastError();
  }
  [[nodiscard]] Placement placement() const override { return Placement::pinned; }
  [[nodiscard]] std::byte* data() const override { return pages_->data(); }
  [[nodiscard]] at::Device device() const override { return device_; }
  [[nodiscard]] int shared_fd() const override { return pages_->shared_fd(); }

 private:
  at::Device device_;
  std::shared_ptr<Memory> pages_;
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
