#include "speedtorch/infinity/memory_monitor.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

namespace speedtorch::infinity {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

/// May outlive the monitor, because threads report to it.
struct MemoryMonitor::State final : c10::MemoryReportingInfoBase {
  struct Block {
    std::int64_t bytes;
    double born;
  };

  explicit State(std::size_t keep) : keep_events(keep) {}

  void reportMemoryUsage(void* address, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device device) override {
    record(reinterpret_cast<std::uintptr_t>(address), bytes, device);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  void record(std::uintptr_t address, std::int64_t bytes, c10::Device device) {
    const std::lock_guard lock(mutex);
    const double now = std::chrono::duration<double>(Clock::now() - start).count();
    if (bytes > 0)
      came(address, bytes, device, now);
    else if (!went(address, device, now))
      return;
    if (keep_events == 0) return;
    events.push_back({now, address, bytes, device});
    if (events.size() > keep_events) events.pop_front();
  }

  void came(std::uintptr_t address, std::int64_t bytes, c10::Device device, double now) {
    MemoryFigures& figures = of[device];
    blocks[{device, address}] = {bytes, now};
    ++figures.allocated;
    figures.bytes += bytes;
    figures.peak_bytes = std::max(figures.peak_bytes, figures.bytes);
  }

  /// False for a block that was allocated before the watch began.
  bool went(std::uintptr_t address, c10::Device device, double now) {
    const auto block = blocks.find({device, address});
    if (block == blocks.end()) return false;
    MemoryFigures& figures = of[device];
    ++figures.freed;
    figures.bytes -= block->second.bytes;
    figures.freed_bytes += block->second.bytes;
    figures.freed_seconds += now - block->second.born;
    blocks.erase(block);
    return true;
  }

  struct ByNumber {
    bool operator()(c10::Device a, c10::Device b) const {
      return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index());
    }
  };
  struct Hash {
    std::size_t operator()(const std::pair<c10::Device, std::uintptr_t>& key) const {
      return std::hash<std::uintptr_t>()(key.second) ^ std::hash<c10::Device>()(key.first);
    }
  };

  const Clock::time_point start = Clock::now();
  std::mutex mutex;
  const std::size_t keep_events;
  std::map<c10::Device, MemoryFigures, ByNumber> of;
  std::unordered_map<std::pair<c10::Device, std::uintptr_t>, Block, Hash> blocks;
  std::deque<MemoryEvent> events;
};

struct MemoryMonitor::Watch::Guard {
  explicit Guard(std::shared_ptr<c10::DebugInfoBase> state)
      : of_thread(c10::DebugInfoKind::PROFILER_STATE, std::move(state)) {}
  c10::DebugInfoGuard of_thread;
};

MemoryMonitor::MemoryMonitor(std::size_t keep_events) : state_(std::make_shared<State>(keep_events)) {}
MemoryMonitor::~MemoryMonitor() = default;

MemoryMonitor::Watch::Watch(MemoryMonitor& monitor) : guard_(std::make_unique<Guard>(monitor.state_)) {}
MemoryMonitor::Watch::~Watch() = default;

MemoryFigures MemoryMonitor::figures(c10::Device device) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->of.find(device);
  return found == state_->of.end() ? MemoryFigures{} : found->second;
}

std::vector<MemoryEvent> MemoryMonitor::events() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->events.begin(), state_->events.end()};
}

void MemoryMonitor::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  for (auto& [device, figures] : state_->of) figures.peak_bytes = figures.bytes;
}

void MemoryMonitor::report(std::uintptr_t address, std::int64_t bytes, c10::Device device) {
  state_->record(address, bytes, device);
}

std::string describe(const MemoryFigures& figures) {
  const double mean = figures.freed > 0 ? figures.freed_seconds / static_cast<double>(figures.freed) : 0;
  char text[160];
  std::snprintf(text, sizeof text, "%.1f MB at most, %lld blocks, %lld of them temporary, living %.3g ms",
                static_cast<double>(figures.peak_bytes) * 1e-6, static_cast<long long>(figures.allocated),
                static_cast<long long>(figures.freed), mean * 1e3);
  return text;
}

}  // namespace speedtorch::infinity
