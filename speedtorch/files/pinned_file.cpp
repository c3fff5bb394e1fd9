#include "speedtorch/files/pinned_file.h"

#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/files/registered_file.h"

namespace speedtorch {
namespace {

constexpr const char* kUse = "a file that a GPU reads in place";

PinnedFile staged(const std::string& why) { return {nullptr, "staged: " + why}; }

}  // namespace

std::string in_place_refusal(std::int64_t bytes, at::Device device) {
  if (!device.is_cuda()) throw PlacementError("a file is pinned for a GPU, not for " + device.str());
  if (!cuda_status().available) return cuda_refusal(kUse);
  return registration_refusal(bytes, gpu_of(device, kUse));
}

PinnedFile register_read_only(std::shared_ptr<Memory> file, std::span<std::byte> mapping, at::Device device) {
  const auto why = in_place_refusal(static_cast<std::int64_t>(mapping.size()), device);
  if (!why.empty()) return staged(why);
  try {
    return {register_file(std::move(file), mapping, gpu_of(device, kUse)),
            "in place: the file is registered with CUDA for reading"};
  } catch (const MemoryError& error) {
    return staged(error.what());
  }
}

}  // namespace speedtorch
