/// Limits a GPU's memory for LibTorch's tensors.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace speedtorch::test {

/// While it lives, leaves LibTorch this much of the first GPU's memory beyond what it holds now.
class GpuCap {
 public:
  explicit GpuCap(std::int64_t bytes) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const auto most = static_cast<double>(reserved() + bytes) / static_cast<double>(total);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(most, 0);
  }
  ~GpuCap() { c10::cuda::CUDACachingAllocator::setMemoryFraction(1, 0); }
  GpuCap(const GpuCap&) = delete;
  GpuCap& operator=(const GpuCap&) = delete;

 private:
  static std::int64_t reserved() {
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[all].current;
  }
};

}  // namespace speedtorch::test
