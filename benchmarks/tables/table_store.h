/// The filled tables of a run: one block of memory per placement and device, reused by every shape that fits.
/// A real table may have two mapped ones: its file, and a copy that is written.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "benchmarks/tables/content.h"
#include "harness/benchmark_case.h"
#include "reports/record.h"
#include "speedtorch/memory/memory.h"

namespace stbench {

/// Fills bytes [begin, end) of `memory` with the content, in parallel; device memory through LibTorch's copy.
void fill_memory(const speedtorch::Memory& memory, std::int64_t begin, std::int64_t end, Content content);

/// The mismatches of a table, and the cases that used it since the check before.
struct TableDamage {
  std::vector<reports::Identity> users;
  harness::Check check;
};

class TableStore {
 public:
  /// @param most_whole larger files, which memory does not hold, are checked in 100,000 evenly spread pages
  /// only
  explicit TableStore(Content content, std::int64_t most_whole = std::numeric_limits<std::int64_t>::max())
      : content_(content), most_whole_(most_whole) {}

  /// A block of at least `bytes` with the content, which depends on the position only and so is the same for
  /// every shape. Pages are touched; those of a file are clean. If `shared`, other processes can map it; it
  /// replaces a private block of that placement and device, and the other way round.
  /// @throws speedtorch::MemoryError, speedtorch::PlacementError
  std::shared_ptr<speedtorch::Memory> filled(speedtorch::Placement placement, std::int64_t bytes,
                                             at::Device device, bool shared = false);
  /// The rows of the content's file in the file itself, read-only.
  std::shared_ptr<speedtorch::Memory> mapped_file();
  /// Frees every block but those of `placement`, each after its last check.
  void keep_only(speedtorch::Placement placement);
  /// Frees every block after its last check.
  void clear() { check_all(), blocks_.clear(); }

  /// Names the cases that use a block of filled(). They must leave the fill in it. The whole block is checked
  /// for that after each group if it is small, else once before it is freed.
  void use(const speedtorch::Memory& memory, const std::vector<reports::Identity>& users);
  /// True if a check of the whole block takes a fraction of a second.
  [[nodiscard]] bool is_small(const speedtorch::Memory& memory) const;
  /// Reports a check of the first `bytes` of the block, which now hold the fill. All users since the last
  /// check answer for the damage.
  void checked(const speedtorch::Memory& memory, std::int64_t bytes, const harness::Check& damage);
  /// Checks every block that was used since its last check.
  void check_all();
  /// The damage that was found since the last call.
  std::vector<TableDamage> take_damage() { return std::exchange(damage_, {}); }
  [[nodiscard]] Content content() const { return content_; }

 private:
  /// Placement, device, and whether it may be written: the file of a real table may not, its copies may.
  using Key = std::tuple<speedtorch::Placement, std::string, bool>;
  struct Block {
    std::shared_ptr<speedtorch::Memory> memory;
    std::int64_t filled = 0;  ///< bytes
    std::vector<reports::Identity> users;
  };
  [[nodiscard]] static Key key_of(const speedtorch::Memory& memory) {
    return {memory.placement(), memory.device().str(), memory.writable()};
  }
  void check(Block& block);
  [[nodiscard]] harness::Check compare_sample(const speedtorch::Memory& memory, std::int64_t bytes) const;
  [[nodiscard]] harness::Check compare_whole(const speedtorch::Memory& memory, std::int64_t bytes) const;

  Content content_;
  std::int64_t most_whole_;
  std::map<Key, Block> blocks_;
  std::vector<TableDamage> damage_;
};

/// The folder of the files behind `mapped` tables: TMPDIR, else /var/tmp (which, unlike /tmp, is meant for
/// large files).
std::string table_folder();

/// Bytes that are free in it; nothing if the system does not say.
std::optional<std::int64_t> table_folder_free();

}  // namespace stbench
