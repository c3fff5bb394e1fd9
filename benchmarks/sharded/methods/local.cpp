#include <ATen/ops/from_blob.h>

#include <optional>

#include "benchmarks/sharded/method.h"
#include "benchmarks/suite/suite.h"
#include "harness/sampler.h"
#include "speedtorch/tables/table_rows.h"

namespace stbench {
namespace {

/// Our gather of as many rows from memory of the rank's own: its shard, or for engine `shared` a copy of the
/// whole table. Nothing travels.
class Local final : public RankGather {
 public:
  explicit Local(RankCell& cell) : RankGather(cell) {
    if (axis<std::string>(cell.id(), "engine") == "shared") {
      copy_ = cell.filled(numbers_below(cell.shape().rows), /*shared=*/false);
      return;
    }
    for (int set = 0; set < harness::index_sets; ++set) {
      numbers_.emplace_back(), rows_.emplace_back();
      for (const auto row : cell.rows(set)) {
        const auto number = cell.owners().place_of(row).row % cell.owners().rows_of(cell.rank());
        numbers_.back().push_back(number);
        rows_.back().push_back(cell.owners().row_of({cell.rank(), number}));
      }
    }
  }

  void run(int set) override {
    if (copy_) return gather_rows(*copy_, cell().index(set), out());
    auto& mine = numbers_[static_cast<std::size_t>(set)];
    gather_rows(cell().sharded().shard(), at::from_blob(mine.data(), {std::ssize(mine)}, at::kLong), out());
  }
  [[nodiscard]] std::span<const std::int64_t> expected(int set) const override {
    return copy_ ? cell().rows(set) : rows_[static_cast<std::size_t>(set)];
  }

 private:
  std::optional<speedtorch::Table> copy_;
  std::vector<std::vector<std::int64_t>> numbers_, rows_;  ///< at this rank, and in the whole table
};

const RegisterShardedMethod registration{{
    .name = "local",
    .summary = "ceiling: our gather of as many rows of the rank's own, all ranks at once",
    .role = harness::Role::ceiling,
    .engines = {"gloo", "node", "shared"},
    .open = opened<Local>,
}};

}  // namespace
}  // namespace stbench
