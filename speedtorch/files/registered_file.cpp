#include "speedtorch/files/registered_file.h"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/memory/cuda_registration.h"
#include "speedtorch/system/limits.h"

namespace speedtorch {
namespace {

/// Counts the users of each file's registration, because CUDA takes the same pages only once, whatever the
/// GPU.
class Registrations {
 public:
  void take(std::span<std::byte> pages, at::Device device) {
    const std::lock_guard lock(mutex_);
    if (const auto known = all_.find(pages.data()); known != all_.end()) {
      ++known->second.users;
      return;
    }
    constexpr unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable | cudaHostRegisterReadOnly;
    all_.emplace(pages.data(), Shared{std::make_unique<CudaRegistration>(pages, flags, device), 1});
  }

  void give_back(const std::byte* pages) {
    const std::lock_guard lock(mutex_);
    const auto known = all_.find(pages);
    if (--known->second.users == 0) all_.erase(known);
  }

 private:
  struct Shared {
    std::unique_ptr<CudaRegistration> registration;
    int users;
  };
  std::mutex mutex_;
  std::map<const std::byte*, Shared> all_;
};

/// Never destroyed, because static objects may hold files.
Registrations& registrations() {
  static auto* const all = new Registrations;
  return *all;
}

class RegisteredFile final : public Memory {
 public:
  RegisteredFile(std::shared_ptr<Memory> file, std::span<std::byte> mapping, at::Device device)
      : Memory(file), file_(std::move(file)), pages_(mapping.data()), device_(device) {
    registrations().take(mapping, device);
  }
  /// Kernels may still use the pages. A destructor cannot report errors.
  ~RegisteredFile() override {
    try {
      synchronize_cuda(device_);
    } catch (const Error&) {
    }
    registrations().give_back(pages_);
  }
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;
  [[nodiscard]] Placement placement() const override { return Placement::pinned; }
  [[nodiscard]] std::byte* data() const override { return file_->data(); }
  [[nodiscard]] at::Device device() const override { return device_; }
  [[nodiscard]] bool writable() const override { return false; }

 private:
  std::shared_ptr<Memory> file_;
  const std::byte* pages_;
  at::Device device_;
};

}  // namespace

std::string registration_refusal(std::int64_t bytes, at::Device gpu) {
  int can = 0;
  if (cudaDeviceGetAttribute(&can, cudaDevAttrHostRegisterReadOnlySupported, gpu.index()) != cudaSuccess ||
      can == 0) {
    cudaGetLastError();
    return "this driver cannot register memory that is only read";
  }
  // Registered pages stay resident. Without this check the kernel would first evict all other pages and then
  // end the process.
  const auto limits = memory_limits(MemoryUse::resident);
  if (limits.empty() || bytes <= limits.front().free) return {};
  return "the whole file, " + std::to_string(bytes) + " bytes, would stay in memory; " +
         std::to_string(limits.front().free) + " are free, the limit is " + limits.front().name;
}

std::shared_ptr<Memory> register_file(std::shared_ptr<Memory> file, std::span<std::byte> mapping,
                                      at::Device gpu) {
  return std::make_shared<RegisteredFile>(std::move(file), mapping, gpu);
}

}  // namespace speedtorch
