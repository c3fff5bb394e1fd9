#include "speedtorch/pinned_file.h"

#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <cuda_runtime_api.h>

#include "speedtorch/cuda_registration.h"
#include "speedtorch/limits.h"
#endif

namespace speedtorch {
namespace {

#ifdef SPEEDTORCH_HAS_CUDA
/// Of a GPU that is there.
std::string refusal(std::int64_t bytes, at::Device device) {
  int number = static_cast<int>(device.index());
  int can = 0;
  if (!device.has_index()) cudaGetDevice(&number);
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

class RegisteredFile final : public Memory {
 public:
  RegisteredFile(std::shared_ptr<Memory> file, std::span<std::byte> mapping, at::Device device)
      : Memory(file),
        file_(std::move(file)),
        registration_(mapping, cudaHostRegisterMapped | cudaHostRegisterPortable | cudaHostRegisterReadOnly,
                      device) {}
  [[nodiscard]] Placement placement() const override { return Placement::pinned; }
  [[nodiscard]] std::byte* data() const override { return file_->data(); }
  [[nodiscard]] at::Device device() const override { return registration_.device(); }

 private:
  std::shared_ptr<Memory> file_;
  CudaRegistration registration_;
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
