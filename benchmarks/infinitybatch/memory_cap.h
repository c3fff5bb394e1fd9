/// Limits the memory that a step may allocate on its device. On a CPU the capped allocator refuses more; on a
/// GPU LibTorch's caching allocator does, by its memory fraction. The GPU's bytes are those that LibTorch
/// takes from the driver, in segments of 2 MiB and more, not those that tensors use.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace stbench {

class MemoryCap {
 public:
  /// On a CPU, installs the capped allocator for the rest of the process and lets malloc keep freed memory.
  explicit MemoryCap(c10::Device device);

  /// Returns unused memory of the caching allocator to the GPU; no-op on a CPU.
  void empty_cache() const;
  /// Until release(), allows at most so many bytes more than are allocated now; 0: no cap.
  void hold(std::int64_t bytes);
  /// @returns the peak of bytes allocated since hold(), without those before
  std::int64_t release();

 private:
  c10::Device device_;
  std::int64_t before_ = 0;
};

}  // namespace stbench
