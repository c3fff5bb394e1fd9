/// LibTorch's CPU memory with a cap: a stand-in for a device of a given size on a machine that has none, and
/// a way to see what training does when memory is refused.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace speedtorch {

/// Hands out what LibTorch's own CPU allocator would, counts it, and refuses what is beyond the cap with
/// c10::OutOfMemoryError, as a GPU's allocator does. Only tensors that LibTorch allocates count: the
/// library's own memory (speedtorch/memory/memory.h) stands for the host's beside the device. May be used by
/// several threads.
class CappedAllocator final : public c10::Allocator {
 public:
  /// The process's one, which from then on serves all of LibTorch's CPU tensors. To be called first in
  /// `main`, before a tensor exists; further calls return the same. It is never removed.
  static CappedAllocator& install();
  /// The installed one, or null.
  static CappedAllocator* installed();

  /// Bytes that may be handed out at one time; 0 (as after install()) is no cap. What is out already counts.
  void set_cap(std::int64_t bytes);
  [[nodiscard]] std::int64_t cap() const;

  /// The `nth` allocation from now (1 is the next) is refused, once, whatever the cap; 0 takes that back.
  void refuse(std::int64_t nth);
  /// True until the allocation that refuse() names has been asked for.
  [[nodiscard]] bool refusal_pending() const;

  [[nodiscard]] std::int64_t allocated() const;    ///< bytes that are out now
  [[nodiscard]] std::int64_t peak() const;         ///< the most since the last reset_peak()
  [[nodiscard]] std::int64_t allocations() const;  ///< granted since the process began
  [[nodiscard]] std::int64_t refusals() const;     ///< since the process began
  void reset_peak();

  c10::DataPtr allocate(std::size_t bytes) override;
  /// The context of what is handed out is its address: oneDNN allocates through this pair.
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

 private:
  CappedAllocator() = default;
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
