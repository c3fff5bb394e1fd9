#include "benchmarks/sharded/method.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "benchmarks/suite/registry.h"
#include "benchmarks/suite/suite.h"

namespace stbench {

RankGather::RankGather(RankCell& cell)
    : cell_(cell), out_(at::empty({cell.batch(), cell.shape().row_elements}, cell.shape().dtype)) {}

void RankGather::poison() { stbench::poison(out_); }

harness::Check RankGather::check(int set, std::span<const std::int64_t> positions) const {
  const auto wanted = expected(set);
  std::vector<std::int64_t> rows;
  for (const auto position : positions) rows.push_back(wanted[static_cast<std::size_t>(position)]);
  auto* data = const_cast<std::int64_t*>(positions.data());  // from_blob's signature; only read
  const auto picked = at::index_select(out_, 0, at::from_blob(data, {std::ssize(positions)}, at::kLong));
  return check_rows(picked, rows, cell_.shape().row_bytes(), cell_.seed(), "checked row", equality_);
}

const std::vector<ShardedMethod>& sharded_methods() { return registered<ShardedMethod>(); }

RegisterShardedMethod::RegisterShardedMethod(ShardedMethod method) {
  auto& all = registered<ShardedMethod>();
  all.push_back(std::move(method));
  std::ranges::sort(all, {}, [](const ShardedMethod& one) { return std::tuple(one.role, one.name); });
}

at::Tensor as_bytes(const at::Tensor& tensor) {
  return at::from_blob(
      tensor.data_ptr(), {static_cast<std::int64_t>(tensor.nbytes())}, [tensor](void*) {}, at::kByte);
}

OwnersByLibTorch owners_by_libtorch(const at::Tensor& index, const RankCell& cell) {
  const auto& owners = cell.owners();
  if (owners.sharding() == speedtorch::Sharding::cyclic)
    return {at::remainder(index, cell.ranks()), at::div(index, cell.ranks(), "floor")};
  const auto block = owners.rows_of(0);
  auto rank = at::div(index, block, "floor");
  auto row = at::sub(index, at::mul(rank, block));
  return {std::move(rank), std::move(row)};
}

bool has_owners_by_libtorch(const reports::Identity& id) {
  return axis<std::string>(id, "sharding") != "hashed";
}

std::vector<std::int64_t> splits_of(const at::Tensor& counts, std::int64_t item_bytes) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t k = 0; k < counts.numel(); ++k)
    bytes.push_back(counts.const_data_ptr<std::int64_t>()[k] * item_bytes);
  return bytes;
}

}  // namespace stbench
