#include "speedtorch/infinity/memory_history.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "speedtorch/cuda.h"
#include "speedtorch/memory/capped_allocator.h"

namespace speedtorch::infinity {
namespace {

MemorySnapshot of_cpu() {
  MemorySnapshot snapshot;
  snapshot.total = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  const CappedAllocator* capped = CappedAllocator::installed();
  if (!capped) return snapshot;
  if (capped->cap() > 0) snapshot.total = capped->cap();
  snapshot.reserved = snapshot.allocated = capped->allocated();  // nothing is cached
  return snapshot;
}

MemorySnapshot of_gpu(c10::Device device) {
  const CudaMemory memory = cuda_memory(device);
  return {.device = device,
          .total = memory.used + cuda_free_bytes(device),
          .reserved = memory.reserved,
          .allocated = memory.allocated};
}

}  // namespace

MemorySnapshot memory_snapshot(c10::Device device, bool synchronize) {
  if (!device.is_cuda()) return of_cpu();
  if (synchronize) synchronize_cuda(device);
  return of_gpu(device);
}

void MemoryHistory::append(const std::string& label, c10::Device device, bool synchronize) {
  MemorySnapshot snapshot = memory_snapshot(device, synchronize);
  snapshot.label = label;
  append(std::move(snapshot));
}

void MemoryHistory::append(MemorySnapshot snapshot) {
  snapshot.label.resize(std::min(snapshot.label.size(), kLabel));
  snapshots_.push_back(std::move(snapshot));
  if (snapshots_.size() > keep_) snapshots_.erase(snapshots_.begin());
}

std::string MemoryHistory::to_string() const {
  char line[160];
  std::snprintf(line, sizeof line, "%-20s %-8s %10s %10s %10s %10s %10s\n", "label", "device", "total MB",
                "reserved", "allocated", "cache", "change");
  std::string text = line;
  std::int64_t before = snapshots_.empty() ? 0 : snapshots_.front().allocated;
  for (const MemorySnapshot& now : snapshots_) {
    const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; };
    std::snprintf(line, sizeof line, "%-20s %-8s %10.1f %10.1f %10.1f %10.1f %+10.1f\n", now.label.c_str(),
                  now.device.str().c_str(), megabytes(now.total), megabytes(now.reserved),
                  megabytes(now.allocated), megabytes(now.free_cache()), megabytes(now.allocated - before));
    text += line;
    before = now.allocated;
  }
  return text;
}

}  // namespace speedtorch::infinity
