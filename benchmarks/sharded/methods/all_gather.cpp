#include <ATen/ops/empty.h>

#include "benchmarks/sharded/method.h"

namespace stbench {
namespace {

/// LibTorch by hand: each rank gets the row numbers of all, reads its own rows and zeros for the others, and
/// a reduce-scatter adds them up.
class AllGather final : public RankGather {
 public:
  explicit AllGather(RankCell& cell) : RankGather(cell) { compare_as_numbers(); }

  void run(int set) override {
    auto all = at::empty({cell().ranks() * cell().batch()}, at::kLong);
    cell().group().all_gather(cell().index(set), all);
    const auto [rank, row] = owners_by_libtorch(all, cell());
    const auto others = rank.ne(cell().rank());
    auto rows = cell().sharded().shard().host_tensor().index_select(0, row.masked_fill(others, 0));
    rows.masked_fill_(others.unsqueeze(1), 0);
    cell().group().reduce_scatter(rows, out());
  }
  [[nodiscard]] Crossed crossed() const override {
    const auto rows = (cell().ranks() - 1) * cell().batch();
    return {rows * static_cast<std::int64_t>(sizeof(std::int64_t)), rows * cell().shape().row_bytes()};
  }
};

const RegisterShardedMethod registration{{
    .name = "all_gather",
    .summary = "LibTorch by hand: all-gather of row numbers, masked gather, reduce-scatter",
    .role = harness::Role::libtorch,
    .supports = has_owners_by_libtorch,
    .open = opened<AllGather>,
}};

}  // namespace
}  // namespace stbench
