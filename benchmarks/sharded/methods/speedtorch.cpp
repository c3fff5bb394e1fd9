#include "benchmarks/sharded/method.h"
#include "benchmarks/suite/suite.h"
#include "speedtorch/tables/table_rows.h"

namespace stbench {
namespace {

class ShardedGather final : public RankGather {
 public:
  using RankGather::RankGather;
  void run(int set) override { cell().sharded().gather(cell().index(set), out()); }
  [[nodiscard]] Crossed crossed() const override {
    const auto& exchange = cell().sharded().last_exchange();
    return {exchange.asked_rows * exchange.id_bytes, exchange.asked_rows * cell().shape().row_bytes()};
  }
};

class SharedGather final : public RankGather {
 public:
  using RankGather::RankGather;
  void run(int set) override { gather_rows(cell().shared(), cell().index(set), out()); }
};

std::unique_ptr<RankGather> open(RankCell& cell) {
  if (axis<std::string>(cell.id(), "engine") == "shared") return std::make_unique<SharedGather>(cell);
  return std::make_unique<ShardedGather>(cell);
}

const RegisterShardedMethod registration{{.name = "speedtorch",
                                          .summary = "ours: ShardedTable::gather; SharedTable for shared",
                                          .role = harness::Role::ours,
                                          .engines = {"gloo", "node", "shared"},
                                          .open = open}};

}  // namespace
}  // namespace stbench
