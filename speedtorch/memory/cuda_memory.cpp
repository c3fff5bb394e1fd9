#include "speedtorch/memory/cuda_memory.h"

#include <ATen/ops/empty.h>
#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/memory/cuda_registration.h"
#include "speedtorch/memory/host_memory.h"
#include "speedtorch/system/limits.h"
#include "speedtorch/system/mapping.h"

namespace speedtorch {
namespace {

/// Pages registered with CUDA, exactly as many bytes as asked for. (LibTorch's pinned allocator rounds up to
/// a power of two.)
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
      : Memory(bytes), tensor_(at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device))) {
    tensor_.storage().unsafeGetStorageImpl()->set_resizable(
        false);  // a view's resize_() would move all views
  }
  [[nodiscard]] Placement placement() const override { return Placement::device; }
  [[nodiscard]] std::byte* data() const override { return static_cast<std::byte*>(tensor_.data_ptr()); }
  [[nodiscard]] at::Device device() const override { return tensor_.device(); }

 private:
  /// On LibTorch's own storage, because record_stream() silently does nothing on another.
  [[nodiscard]] at::Tensor new_view(at::IntArrayRef sizes, at::ScalarType dtype,
                                    at::Device /*on*/) const override {
    auto seen = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor_.storage()),
                                                         c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                         c10::scalarTypeToTypeMeta(dtype));
    seen.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return seen;
  }

  at::Tensor tensor_;
};

[[noreturn]] void refuse_device_memory(std::int64_t bytes, at::Device device, const c10::Error& error) {
  const auto free = cuda_free_bytes(device);
  if (free < bytes) throw LimitError("device memory", bytes, free, "the memory of " + device.str());
  throw MemoryError("cannot allocate " + std::to_string(bytes) + " bytes on " + device.str() + ": " +
                    error.what_without_backtrace());
}

}  // namespace

std::shared_ptr<Memory> allocate_pinned(std::int64_t bytes, at::Device device) {
  device = gpu_of(device, "pinned memory");
  require_memory("pinned memory", bytes, MemoryUse::locked);
  auto pages = allocate_pages(Placement::hugepage, bytes);
  prefault(pages->data(), bytes);
  return pin(std::move(pages), device);
}

std::shared_ptr<Memory> pin(std::shared_ptr<Memory> pages, at::Device device) {
  return std::make_shared<PinnedMemory>(std::move(pages), gpu_of(device, "pinned memory"));
}

std::shared_ptr<Memory> allocate_device(std::int64_t bytes, at::Device device) {
  device = gpu_of(device, "device memory");
  try {
    return std::make_shared<DeviceMemory>(bytes, device);
  } catch (const c10::Error& error) {
    if (!is_cuda_out_of_memory(error)) throw;
    cudaGetLastError();  // the runtime's own error, where LibTorch does not cache
    refuse_device_memory(bytes, device, error);
  }
}

}  // namespace speedtorch
