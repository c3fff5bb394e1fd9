/// Makes caches cold before each sample of a case with `cache=cold`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "speedtorch/memory/memory.h"

namespace stbench {

/// The caches cannot be made cold on this machine. what() has the reason and the cure, without a folder's
/// name.
struct CannotEvict : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Fills the processor's caches with other bytes, twice as many as the last level has. Each core walks its
/// part, so that its private caches are filled as well.
class CacheWalk {
 public:
  explicit CacheWalk(std::int64_t last_level_bytes);
  void walk();

 private:
  std::vector<std::byte> others_;
};

/// Makes the caches cold for one table and the model tensor that its rows go to.
class Cold {
 public:
  /// @param model the device of the model tensor; a GPU's L2 is filled likewise (not yet run on a GPU)
  Cold(std::shared_ptr<speedtorch::Memory> table, at::Device model, std::shared_ptr<CacheWalk> caches);
  /// Evicts a mapped table's file from memory, confirmed by mincore, then the caches.
  /// @throws CannotEvict if a part of the file stays in memory
  void evict();

 private:
  void evict_file() const;
  std::shared_ptr<speedtorch::Memory> table_;
  std::shared_ptr<CacheWalk> caches_;
  at::Tensor device_bytes_;  ///< twice a GPU's L2
};

/// Brings the whole file of a mapped table into memory. No-op for other memory.
void make_warm(const speedtorch::Memory& table);

}  // namespace stbench
