/// What a step may take of its device's memory beside what lies there before it. On a CPU the capped
/// allocator refuses what is beyond, on a GPU LibTorch's caching allocator by its memory fraction: there the
/// bytes are those that LibTorch takes of the driver, by segments of 2 MiB and more, not what tensors use.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace stbench {

class MemoryCap {
 public:
  /// On a CPU, for the rest of the process: installs the capped allocator, and malloc keeps what is freed.
  explicit MemoryCap(c10::Device device);

  /// Gives back what the caching allocator keeps of a GPU and nobody uses; nothing on a CPU.
  void empty_cache() const;
  /// From now to release(), at most so many bytes more than there are now; 0: no cap.
  void hold(std::int64_t bytes);
  /// @returns the most bytes that were taken since hold(), beside those that were there then
  std::int64_t release();

 private:
  c10::Device device_;
  std::int64_t before_ = 0;
};

}  // namespace stbench
