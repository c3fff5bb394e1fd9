/// Named snapshots of a device's memory, printed as a table.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace speedtorch::infinity {

/// All in bytes. GPU: figures of the driver and of LibTorch's caching allocator. CPU: the machine's memory
/// (or the CappedAllocator's cap), and the bytes that the CappedAllocator handed out (0 if it is not
/// installed).
struct MemorySnapshot {
  std::string label;
  c10::Device device = c10::kCPU;
  std::int64_t total = 0;
  std::int64_t reserved = 0;   ///< by LibTorch's allocator
  std::int64_t allocated = 0;  ///< the part of `reserved` that is in tensors

  [[nodiscard]] std::int64_t free_cache() const { return reserved - allocated; }
};

/// @param synchronize wait for the device first
MemorySnapshot memory_snapshot(c10::Device device, bool synchronize = true);

class MemoryHistory {
 public:
  static constexpr std::size_t kLabel = 20;  ///< maximum length of a label; longer ones are cut

  /// @param keep number of snapshots that are kept
  explicit MemoryHistory(std::size_t keep = 10'000) : keep_(keep) {}
  void append(const std::string& label, c10::Device device = c10::kCPU, bool synchronize = true);
  void append(MemorySnapshot snapshot);
  [[nodiscard]] const std::vector<MemorySnapshot>& snapshots() const { return snapshots_; }
  [[nodiscard]] std::string to_string() const;  ///< a table in MB, with the change since the line before

 private:
  std::size_t keep_;
  std::vector<MemorySnapshot> snapshots_;
};

}  // namespace speedtorch::infinity
