#include "benchmarks/sharded/methods/sorted_exchange.h"

#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace stbench {
namespace {

constexpr std::int64_t id_bytes = sizeof(std::int64_t);

}  // namespace

void SortedExchange::run(int set) {
  const auto [rank, row] = owners_by_libtorch(cell().index(set), cell());
  const auto order = at::argsort(rank, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const auto to = at::bincount(rank, {}, cell().ranks());
  const auto from = at::empty_like(to);
  const std::vector<std::int64_t> each(static_cast<std::size_t>(cell().ranks()), id_bytes);
  exchange(as_bytes(to), each, as_bytes(from), each);
  const auto ids = row.index_select(0, order);
  const auto asked = at::empty({from.sum().item<std::int64_t>()}, at::kLong);
  exchange(as_bytes(ids), splits_of(to, id_bytes), as_bytes(asked), splits_of(from, id_bytes));
  const auto rows = cell().sharded().shard().host_tensor().index_select(0, asked);
  const auto arrived = at::empty(out().sizes(), out().options());
  const auto row_bytes = cell().shape().row_bytes();
  exchange(as_bytes(rows), splits_of(from, row_bytes), as_bytes(arrived), splits_of(to, row_bytes));
  out().index_copy_(0, order, arrived);
  remote_ = cell().batch() - to[cell().rank()].item<std::int64_t>();
}

Crossed SortedExchange::crossed() const { return {remote_ * id_bytes, remote_ * cell().shape().row_bytes()}; }

}  // namespace stbench
