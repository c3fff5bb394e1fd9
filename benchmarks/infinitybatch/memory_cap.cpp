#include "benchmarks/infinitybatch/memory_cap.h"

#include <malloc.h>

#include <algorithm>

#include "speedtorch/infinity/out_of_memory.h"
#include "speedtorch/memory/capped_allocator.h"
#ifdef SPEEDTORCH_HAS_CUDA
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#endif

namespace stbench {
namespace {

#ifdef SPEEDTORCH_HAS_CUDA
namespace caching = c10::cuda::CUDACachingAllocator;

constexpr auto all_pools = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// Limits the bytes that LibTorch takes from the driver; 0: no limit. Not yet run on hardware.
void set_fraction(c10::Device device, std::int64_t bytes) {
  const c10::DeviceGuard guard(device);
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const double part = bytes == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(total);
  caching::setMemoryFraction(std::min(1.0, part), device.index());
}
#endif

speedtorch::CappedAllocator& host() { return speedtorch::CappedAllocator::install(); }

/// Keeps freed memory in the process. By default glibc sometimes returns it to the kernel, and the page
/// faults slow down every method (`--preset batches`: 1,781,000 → 296,000 faults; a plain step of `conv` in
/// one program: 14 → 6.3 ms).
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int whole_gib = 1 << 30, most_of_old_ones = 32 << 20;
  mallopt(M_TRIM_THRESHOLD, whole_gib);
  if (mallopt(M_MMAP_THRESHOLD, whole_gib) == 0) mallopt(M_MMAP_THRESHOLD, most_of_old_ones);
#endif
}

}  // namespace

MemoryCap::MemoryCap(c10::Device device) : device_(device) {
  if (device_.is_cuda()) return;
  host();
  keep_freed_memory();
}

void MemoryCap::empty_cache() const { speedtorch::infinity::free_cached_memory(device_); }

void MemoryCap::hold(std::int64_t bytes) {
#ifdef SPEEDTORCH_HAS_CUDA
  if (device_.is_cuda()) {
    empty_cache();
    before_ = caching::getDeviceStats(device_.index()).reserved_bytes[all_pools].current;
    caching::resetPeakStats(device_.index());
    set_fraction(device_, bytes == 0 ? 0 : before_ + bytes);
    return;
  }
#endif
  before_ = host().allocated();
  host().reset_peak();
  host().set_cap(bytes == 0 ? 0 : before_ + bytes);
}

std::int64_t MemoryCap::release() {
#ifdef SPEEDTORCH_HAS_CUDA
  if (device_.is_cuda()) {
    set_fraction(device_, 0);
    return caching::getDeviceStats(device_.index()).reserved_bytes[all_pools].peak - before_;
  }
#endif
  host().set_cap(0);
  return host().peak() - before_;
}

}  // namespace stbench
