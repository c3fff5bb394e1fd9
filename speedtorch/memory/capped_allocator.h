/// Caps LibTorch's CPU memory. It stands in for a device of a given size on a machine without one, and shows
/// what training does when an allocation fails.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace speedtorch {

/// Allocates as LibTorch's own CPU allocator does, counts the bytes, and throws c10::OutOfMemoryError beyond
/// the cap, as a GPU's allocator does. Only LibTorch's tensors count: the library's own memory
/// (speedtorch/memory/memory.h) plays the host's memory beside the device. Thread-safe.
class CappedAllocator final : public c10::Allocator {
 public:
  /// Installs the process's allocator, which from then on serves all of LibTorch's CPU tensors. Call it first
  /// in `main`, before any tensor exists. Further calls return the same allocator. It is never removed.
  static CappedAllocator& install();
  /// The installed allocator, or null.
  static CappedAllocator* installed();

  /// Sets the maximum of bytes in use; 0 (as after install()) means no cap. Bytes in use already count.
  void set_cap(std::int64_t bytes);
  [[nodiscard]] std::int64_t cap() const { return locked(cap_); }

  /// Makes the `nth` allocation from now (1 is the next) fail once, whatever the cap; 0 cancels that.
  void refuse(std::int64_t nth);
  /// True until the allocation that refuse() names has been requested.
  [[nodiscard]] bool refusal_pending() const { return locked(refuse_in_) > 0; }

  /// Bytes in use.
  [[nodiscard]] std::int64_t allocated() const { return locked(allocated_); }
  /// The maximum since the last reset_peak().
  [[nodiscard]] std::int64_t peak() const { return locked(peak_); }
  /// Allocations granted since the process began.
  [[nodiscard]] std::int64_t allocations() const { return locked(allocations_); }
  /// Allocations refused since the process began.
  [[nodiscard]] std::int64_t refusals() const { return locked(refusals_); }
  void reset_peak();

  c10::DataPtr allocate(std::size_t bytes) override;
  /// An allocation's context is its address, because oneDNN allocates through this pair of functions.
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

 private:
  CappedAllocator() = default;
  [[nodiscard]] std::int64_t locked(const std::int64_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  static void release(void* address);
  void reserve(std::int64_t bytes);
  void forget(void* address);

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::int64_t> sizes_;
  std::int64_t cap_ = 0;
  std::int64_t refuse_in_ = 0;
  std::int64_t allocated_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t allocations_ = 0;
  std::int64_t refusals_ = 0;
};

}  // namespace speedtorch
