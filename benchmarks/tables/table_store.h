/// The filled tables of a run: one block of memory a placement and device, used again by every shape that
/// fits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/benchmark_case.h"
#include "reports/record.h"
#include "speedtorch/memory/memory.h"

namespace stbench {

/// Bytes [begin, end) of `memory` become the seed's fill, in parallel; through LibTorch's copy for device
/// memory.
void fill_memory(const speedtorch::Memory& memory, std::int64_t begin, std::int64_t end, std::uint64_t seed);

/// What the last check of a table found, and the cases that worked on it since the check before.
struct TableDamage {
  std::vector<reports::Identity> users;
  harness::Check check;
};

class TableStore {
 public:
  /// @param most_whole files of more bytes, which memory does not hold, are not read as a whole to check
  /// them: of these 100,000 pages are, evenly spread
  explicit TableStore(std::uint64_t seed, std::int64_t most_whole = std::numeric_limits<std::int64_t>::max())
      : seed_(seed), most_whole_(most_whole) {}

  /// A block of at least `bytes` whose content is the seed's fill, which is the same for every shape: a
  /// function of the position alone. Pages are touched; those of a file are clean. `shared`:
  /// another process can map it; a private block of that placement and device makes room for it, and the
  /// other way round.
  /// @throws speedtorch::MemoryError, speedtorch::PlacementError
  std::shared_ptr<speedtorch::Memory> filled(speedtorch::Placement placement, std::int64_t bytes,
                                             at::Device device, bool shared = false);
  /// Frees every block but those of `placement`, each after its last check.
  void keep_only(speedtorch::Placement placement);
  /// Frees every block after its last check.
  void clear() { check_all(), blocks_.clear(); }

  /// Names who works on a block that filled() gave. It holds the fill again when they are done, and is
  /// checked for that as a whole: after each group where it is small, else once, before it is freed.
  void use(const speedtorch::Memory& memory, const std::vector<reports::Identity>& users);
  /// True for a block of which a whole check takes a fraction of a second.
  [[nodiscard]] bool is_small(const speedtorch::Memory& memory) const;
  /// The first `bytes` of the block were found as filled, or mended after `damage` was found, for which all
  /// its users since the last check answer.
  void checked(const speedtorch::Memory& memory, std::int64_t bytes, const harness::Check& damage);
  /// Checks every block that was used since its last check.
  void check_all();
  /// What was found since this was last asked for.
  std::vector<TableDamage> take_damage() { return std::exchange(damage_, {}); }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  using Key = std::pair<speedtorch::Placement, std::string>;
  struct Block {
    std::shared_ptr<speedtorch::Memory> memory;
    std::int64_t filled = 0;  ///< bytes
    std::vector<reports::Identity> users;
  };
  [[nodiscard]] static Key key_of(const speedtorch::Memory& memory) {
    return {memory.placement(), memory.device().str()};
  }
  void check(Block& block);
  [[nodiscard]] harness::Check compare_sample(const speedtorch::Memory& memory, std::int64_t bytes) const;
  [[nodiscard]] harness::Check compare_whole(const speedtorch::Memory& memory, std::int64_t bytes) const;

  std::uint64_t seed_;
  std::int64_t most_whole_;
  std::map<Key, Block> blocks_;
  std::vector<TableDamage> damage_;
};

/// The folder of the files behind `mapped` tables: TMPDIR, else /var/tmp (which, unlike /tmp, is meant for
/// large files).
std::string table_folder();

/// Bytes that are free in it; nothing where the system does not say.
std::optional<std::int64_t> table_folder_free();

}  // namespace stbench
