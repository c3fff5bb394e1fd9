#include "speedtorch/files/pinned_file.h"

#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "speedtorch/memory/cuda_registration.h"
#include "speedtorch/system/limits.h"
#endif

namespace speedtorch {
namespace {

#ifdef SPEEDTORCH_HAS_CUDA
/// Of a GPU that is there.
std::string refusal(std::int64_t bytes, at::Device device) {
  const int number = gpu_of(device, "a file that a GPU reads in place").index();
  int can = 0;
  if (cudaDeviceGetAttribute(&can, cudaDevAttrHostRegisterReadOnlySupported, number) != cudaSuccess ||
      can == 0) {
    cudaGetLastError();
    return "this driver cannot register memory that is only read";
  }
  // Registered pages stay in memory. The kernel would first throw out everybody else's and then end the
  // process.
  const auto limits = memory_limits(MemoryUse::resident);
  if (limits.empty() || bytes <= limits.front().free) return {};
  return "the whole file, " + std::to_string(bytes) + " bytes, would stay in memory; " +
         std::to_string(limits.front().free) + " are free, the limit is " + limits.front().name;
}

/// The registrations of files, each with the number of its users: CUDA takes the same pages once, whatever
/// the GPU.
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

/// Never destroyed: files may be held by static objects.
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
  /// Kernels may still be at the pages. Nobody is there to hear of an error.
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

 private:
  std::shared_ptr<Memory> file_;
  const std::byte* pages_;
  at::Device device_;
};
#endif

PinnedFile staged(const std::string& why) { return {nullptr, "staged: " + why}; }

}  // namespace

std::string in_place_refusal([[maybe_unused]] std::int64_t bytes, at::Device device) {
  if (!device.is_cuda()) throw PlacementError("a file is pinned for a GPU, not for " + device.str());
  if (!cuda_status().available) return cuda_refusal("a file that a GPU reads in place");
#ifdef SPEEDTORCH_HAS_CUDA
  return refusal(bytes, device);
#else
  return "this program was built without CUDA";
#endif
}

PinnedFile register_read_only([[maybe_unused]] std::shared_ptr<Memory> file, std::span<std::byte> mapping,
                              at::Device device) {
  const auto why = in_place_refusal(static_cast<std::int64_t>(mapping.size()), device);
  if (!why.empty()) return staged(why);
#ifdef SPEEDTORCH_HAS_CUDA
  try {
    device = gpu_of(device, "a file that a GPU reads in place");
    return {std::make_shared<RegisteredFile>(std::move(file), mapping, device),
            "in place: the file is registered with CUDA for reading"};
  } catch (const MemoryError& error) {
    return staged(error.what());
  }
#else
  return staged(why);
#endif
}

}  // namespace speedtorch
