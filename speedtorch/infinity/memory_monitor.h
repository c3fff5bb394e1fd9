/// What a piece of work does with memory: how much it takes at most, how many blocks, and how long they live.
/// LibTorch's allocators, the CPU's and CUDA's, report each block to whoever watches the thread; nothing has
/// to be installed.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace speedtorch::infinity {

/// Of one device, since the monitor was made. Blocks from before that do not count, nor does their end.
struct MemoryFigures {
  std::int64_t bytes = 0;        ///< held now
  std::int64_t peak_bytes = 0;   ///< held at most
  std::int64_t allocated = 0;    ///< blocks
  std::int64_t freed = 0;        ///< blocks: temporaries, which came and went
  std::int64_t freed_bytes = 0;  ///< of these
  double freed_seconds = 0;      ///< for which these lived, added
};

/// A block that came (`bytes` > 0) or went (< 0).
struct MemoryEvent {
  double seconds = 0;  ///< since the monitor was made
  std::uintptr_t address = 0;
  std::int64_t bytes = 0;
  c10::Device device = c10::kCPU;
};

/// Watches threads while a Watch of it lives. May be asked from any thread. LibTorch's profiler uses the same
/// place: one of both at a time.
class MemoryMonitor {
 public:
  /// @param keep_events the last so many are kept
  explicit MemoryMonitor(std::size_t keep_events = 0);
  ~MemoryMonitor();
  MemoryMonitor(const MemoryMonitor&) = delete;
  MemoryMonitor& operator=(const MemoryMonitor&) = delete;

  /// This thread, and those that do its backward passes, until its end. Watches nest: the inner one has the
  /// blocks.
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
  [[nodiscard]] std::vector<MemoryEvent> events() const;  ///< the oldest first
  /// The peak is what is held now.
  void reset_peak();

  /// Called by the allocators; tests call it in their place.
  void report(std::uintptr_t address, std::int64_t bytes, c10::Device device);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// The figures in one line: "12.6 MB at most, 340 blocks, 331 of them temporary, living 0.4 ms".
std::string describe(const MemoryFigures& figures);

}  // namespace speedtorch::infinity
