#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "benchmarks/sharded/method.h"

namespace stbench {
namespace {

constexpr std::int64_t id_bytes = sizeof(std::int64_t);

/// LibTorch by hand: sort the batch by rank, and exchange counts, row numbers and rows. A row that the batch
/// names twice travels twice.
class AllToAll final : public RankGather {
 public:
  using RankGather::RankGather;

  void run(int set) override {
    const auto [rank, row] = owners_by_libtorch(cell().index(set), cell());
    const auto order = at::argsort(rank, /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const auto to = at::bincount(rank, {}, cell().ranks());
    auto from = at::empty_like(to);
    const std::vector<std::int64_t> each(static_cast<std::size_t>(cell().ranks()), id_bytes);
    cell().group().start(as_bytes(to), each, as_bytes(from), each).wait();
    const auto ids = row.index_select(0, order);
    const auto asked = at::empty({from.sum().item<std::int64_t>()}, at::kLong);
    exchange(ids, to, asked, from, id_bytes);
    const auto rows = cell().sharded().shard().host_tensor().index_select(0, asked);
    const auto arrived = at::empty(out().sizes(), out().options());
    exchange(rows, from, arrived, to, cell().shape().row_bytes());
    out().index_copy_(0, order, arrived);
    remote_ = cell().batch() - to[cell().rank()].item<std::int64_t>();
  }
  [[nodiscard]] Crossed crossed() const override {
    return {remote_ * id_bytes, remote_ * cell().shape().row_bytes()};
  }

 private:
  void exchange(const at::Tensor& send, const at::Tensor& to, const at::Tensor& receive,
                const at::Tensor& from, std::int64_t item_bytes) const {
    cell()
        .group()
        .start(as_bytes(send), splits_of(to, item_bytes), as_bytes(receive), splits_of(from, item_bytes))
        .wait();
  }

  std::int64_t remote_ = 0;
};

const RegisterShardedMethod registration{{
    .name = "all_to_all",
    .summary = "LibTorch by hand: all-to-all of row numbers, then of rows",
    .role = harness::Role::libtorch,
    .supports = has_owners_by_libtorch,
    .open = opened<AllToAll>,
}};

}  // namespace
}  // namespace stbench
