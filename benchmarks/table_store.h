/// The filled tables of a run: one block of memory a placement and device, used again by every shape that
/// fits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "speedtorch/memory.h"

namespace stbench {

/// Where and how a shape's rows lie.
struct RowShape {
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  at::ScalarType dtype = at::kFloat;
  [[nodiscard]] std::int64_t row_bytes() const {
    return row_elements * static_cast<std::int64_t>(c10::elementSize(dtype));
  }
  [[nodiscard]] std::int64_t bytes() const { return rows * row_bytes(); }
};

/// Bytes [begin, end) of `memory` become the seed's fill, in parallel; through LibTorch's copy for device
/// memory.
void fill_memory(const speedtorch::Memory& memory, std::int64_t begin, std::int64_t end, std::uint64_t seed);

class TableStore {
 public:
  explicit TableStore(std::uint64_t seed) : seed_(seed) {}

  /// A block of at least `bytes` whose content is the seed's fill, which is the same for every shape: a
  /// function of the position alone. Pages are touched, and those of a file are resident and clean. `shared`:
  /// another process can map it; a private block of that placement and device makes room for it, and the
  /// other way round.
  /// @throws speedtorch::MemoryError, speedtorch::PlacementError
  std::shared_ptr<speedtorch::Memory> filled(speedtorch::Placement placement, std::int64_t bytes,
                                             at::Device device, bool shared = false);
  /// Frees every block but those of `placement`.
  void keep_only(speedtorch::Placement placement);
  /// Frees every block.
  void clear() { blocks_.clear(); }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  using Key = std::pair<speedtorch::Placement, std::string>;
  std::uint64_t seed_;
  std::map<Key, std::shared_ptr<speedtorch::Memory>> blocks_;
};

/// The folder of the files behind `mapped` tables: TMPDIR, else /var/tmp (which, unlike /tmp, is meant for
/// large files).
std::string table_folder();

}  // namespace stbench
