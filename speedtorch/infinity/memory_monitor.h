/// Measures the memory of a piece of work: its peak, the number of blocks, and how long they live. LibTorch's
/// allocators, for CPU and CUDA, report each block to the watching thread, so nothing needs to be installed.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace speedtorch::infinity {

/// Figures of one device since the monitor was created. Blocks allocated before do not count.
struct MemoryFigures {
  std::int64_t bytes = 0;        ///< held now
  std::int64_t peak_bytes = 0;   ///< maximum of `bytes`
  std::int64_t allocated = 0;    ///< blocks
  std::int64_t freed = 0;        ///< blocks that came and went: temporaries
  std::int64_t freed_bytes = 0;  ///< of the freed blocks
  double freed_seconds = 0;      ///< sum of their lifetimes
};

/// An allocation (`bytes` > 0) or a deallocation (< 0).
struct MemoryEvent {
  double seconds = 0;  ///< since the monitor was created
  std::uintptr_t address = 0;
  std::int64_t bytes = 0;
  c10::Device device = c10::kCPU;
};

/// Watches the threads that have a Watch of it. Its queries are thread-safe. LibTorch's profiler uses the
/// same hook, so use only one of them at a time.
class MemoryMonitor {
 public:
  /// @param keep_events number of events that are kept
  explicit MemoryMonitor(std::size_t keep_events = 0);
  ~MemoryMonitor();
  MemoryMonitor(const MemoryMonitor&) = delete;
  MemoryMonitor& operator=(const MemoryMonitor&) = delete;

  /// Watches this thread, and the threads of its backward passes, while it lives. If watches nest, the inner
  /// one receives the blocks.
  class Watch {
   public:
    explicit Watch(MemoryMonitor& monitor);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    struct Guard;
    std::unique_ptr<Guard> guard_;
  };

  [[nodiscard]] MemoryFigures figures(c10::Device device) const;
  [[nodiscard]] std::vector<MemoryEvent> events() const;  ///< oldest first
  /// Resets the peak to the bytes held now.
  void reset_peak();

  /// Called by the allocators, and by tests.
  void report(std::uintptr_t address, std::int64_t bytes, c10::Device device);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// One line: "12.6 MB at most, 340 blocks, 331 of them temporary, living 0.4 ms".
std::string describe(const MemoryFigures& figures);

}  // namespace speedtorch::infinity
