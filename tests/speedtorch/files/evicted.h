/// Evicts files from memory, for tests.
#pragma once

#include <chrono>
#include <thread>

#include "speedtorch/memory/memory.h"
#include "speedtorch/system/page_cache.h"
#include "speedtorch/system/pages.h"

namespace speedtorch::test {

/// The resident share of a file after eviction. Pages that another processor is adding to the cache survive a
/// first attempt, so it evicts again for 2 s.
inline double evicted(const Memory& memory) {
  for (int attempt = 0;; ++attempt) {
    evict({memory.data(), memory.bytes(), memory.file_fd()});
    const double stays = resident_fraction(memory.data(), memory.bytes());
    if (stays == 0 || attempt == 400) return stays;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace speedtorch::test
