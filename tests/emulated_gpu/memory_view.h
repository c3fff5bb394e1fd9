/// The memory that kernels may touch, as the runtime shows it to the interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulated_gpu {

struct Range {
  std::uint64_t begin = 0, end = 0;
  std::byte* bytes = nullptr;  ///< where the byte of address `begin` lies on the host
  bool read_only = false;
  std::uint8_t* written =
      nullptr;  ///< a byte per byte: nonzero where something was written; null: all counts as written
};

/// Constant during a launch, so the interpreter may keep ranges.
struct MemoryView {
  virtual ~MemoryView() = default;
  virtual Range range_of(std::uint64_t address) const = 0;  ///< {} where nothing is (end == 0)
  /// For messages: "4 bytes past the end of 256 bytes of device memory at 0x...".
  virtual std::string neighbours(std::uint64_t address) const = 0;
};

}  // namespace emulated_gpu
