#include <ATen/ops/empty.h>

#include <bit>

#include "benchmarks/memory/allocator.h"
#include "speedtorch/cuda.h"

namespace stbench {
namespace {

/// Pinned memory of LibTorch's caching allocator. Not yet run on a GPU.
class PinnedTensor final : public speedtorch::Memory {
 public:
  PinnedTensor(std::int64_t bytes, at::Device device)
      : Memory(bytes),
        device_(device),
        tensor_(at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true))) {}
  [[nodiscard]] speedtorch::Placement placement() const override { return speedtorch::Placement::pinned; }
  [[nodiscard]] std::byte* data() const override { return static_cast<std::byte*>(tensor_.data_ptr()); }
  [[nodiscard]] at::Device device() const override { return device_; }

 private:
  at::Device device_;
  at::Tensor tensor_;
};

std::shared_ptr<speedtorch::Memory> allocate(speedtorch::Placement placement, std::int64_t bytes,
                                             at::Device device) {
  if (placement != speedtorch::Placement::pinned) return speedtorch::allocate(placement, bytes, device);
  speedtorch::require_cuda("pinned memory");
  return std::make_shared<PinnedTensor>(bytes, device);
}

/// LibTorch's tensors: plain, pinned (its allocator rounds up to a power of two) and CUDA.
const RegisterAllocator registration{{
    .name = "libtorch",
    .summary = "LibTorch's tensors: plain, pinned, CUDA",
    .role = harness::Role::libtorch,
    .placements = {"libtorch", "pinned", "device"},
    .needs =
        [](const std::string& placement, std::int64_t bytes) {
          constexpr auto largest = std::uint64_t{1} << 62;
          const auto asked = static_cast<std::uint64_t>(bytes);
          if (placement != "pinned" || asked > largest) return bytes;
          return static_cast<std::int64_t>(std::bit_ceil(asked));
        },
    .allocate = allocate,
}};

}  // namespace
}  // namespace stbench
