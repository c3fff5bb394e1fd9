#include "speedtorch/memory/capped_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>

namespace speedtorch {
namespace {

/// Never destroyed, because tensors in static storage are freed later than any object here.
std::atomic<CappedAllocator*> the_one{nullptr};

/// Above that of LibTorch's own registration, which is 0.
constexpr std::uint8_t kPriority = 100;

}  // namespace

CappedAllocator& CappedAllocator::install() {
  static std::once_flag once;
  std::call_once(once, [] {
    the_one = new CappedAllocator;
    c10::SetCPUAllocator(the_one, kPriority);
  });
  return *the_one;
}

CappedAllocator* CappedAllocator::installed() { return the_one; }

void CappedAllocator::set_cap(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  cap_ = bytes;
}

void CappedAllocator::refuse(std::int64_t nth) {
  const std::lock_guard lock(mutex_);
  refuse_in_ = nth;
}

void CappedAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = allocated_;
}

/// Counts `bytes` as in use, or throws. Comes before the allocation, so that two threads cannot pass the cap
/// together.
void CappedAllocator::reserve(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool refused = refuse_in_ > 0 && --refuse_in_ == 0;
  const bool beyond = cap_ > 0 && allocated_ + bytes > cap_;
  if (refused || beyond) {
    ++refusals_;
    C10_THROW_ERROR(OutOfMemoryError, c10::str("CappedAllocator: out of memory: tried to allocate ", bytes,
                                               " bytes with ", allocated_, " of ", cap_, " in use",
                                               refused ? " (refused once, as asked)" : ""));
  }
  ++allocations_;
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
}

c10::DataPtr CappedAllocator::allocate(std::size_t bytes) {
  const c10::Device cpu(c10::kCPU);
  if (bytes == 0) return {nullptr, nullptr, &release, cpu};
  const auto signed_bytes = static_cast<std::int64_t>(bytes);
  reserve(signed_bytes);
  void* address = nullptr;
  try {
    address = c10::alloc_cpu(bytes);
    const std::lock_guard lock(mutex_);
    sizes_[address] = signed_bytes;
  } catch (...) {
    c10::free_cpu(address);
    const std::lock_guard lock(mutex_);
    allocated_ -= signed_bytes;
    throw;
  }
  c10::reportMemoryUsageToProfiler(address, signed_bytes, static_cast<std::size_t>(allocated()), 0, cpu);
  return {address, address, &release, cpu};
}

void CappedAllocator::forget(void* address) {
  std::int64_t bytes = 0;
  std::int64_t left = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(address);
    if (found == sizes_.end()) return;  // LibTorch's own, from before install()
    bytes = found->second;
    sizes_.erase(found);
    left = allocated_ -= bytes;
  }
  c10::reportMemoryUsageToProfiler(address, -bytes, static_cast<std::size_t>(left), 0,
                                   c10::Device(c10::kCPU));
}

void CappedAllocator::release(void* address) {
  if (address == nullptr) return;
  the_one.load()->forget(address);
  c10::free_cpu(address);
}

c10::DeleterFnPtr CappedAllocator::raw_deleter() const { return &release; }

void CappedAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  default_copy_data(to, from, bytes);
}

}  // namespace speedtorch
