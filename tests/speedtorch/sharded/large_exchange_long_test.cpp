/// Messages between two ranks that sum to more than 2^31 bytes, there and back.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <string>

#include "speedtorch/sharded/sharded_table.h"
#include "tests/speedtorch/sharded/ranks.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kWidth = std::int64_t{1} << 20;
constexpr std::int64_t kRowsOfRank = (std::int64_t{1} << 31) / kWidth + 1;

/// Rank 0 asks for all rows of rank 1 and sends them back, each with its number added. All bytes of row r are
/// r modulo 256.
std::string move_all(const RankGroup& group) {
  auto table = ShardedTable::empty(group, {2 * kRowsOfRank, kWidth}, at::kByte);
  auto shard = table.shard().host_tensor();
  const auto first = group.rank() * kRowsOfRank;
  for (std::int64_t k = 0; k < kRowsOfRank; ++k) shard[k].fill_((first + k) % 256);
  const auto index = at::arange(kRowsOfRank, group.rank() == 0 ? 2 * kRowsOfRank : kRowsOfRank, at::kLong);
  const auto rows = table.gather(index);
  for (std::int64_t k = 0; k < index.numel(); ++k)
    if (!at::equal(rows[k], at::full({kWidth}, (kRowsOfRank + k) % 256, at::kByte)))
      return "a wrong row came";
  table.scatter(index, rows, Duplicates::accumulate);
  for (std::int64_t k = 0; k < kRowsOfRank; ++k) {
    const auto value = (first + k) * (group.rank() == 1 ? 2 : 1) % 256;
    if (!at::equal(shard[k], at::full({kWidth}, value, at::kByte))) return "a wrong row was left";
  }
  group.barrier();
  return "right";
}

TEST(ShardedTable, MovesMoreThan31BitsOfBytesBetweenTwoRanks) {
  const test::HeldPort port;
  EXPECT_THAT(
      test::in_ranks(2, [&](int rank) { return move_all(RankGroup(rank, 2, test::on_this_host(port))); }),
      testing::Each("right"));
}

}  // namespace
}  // namespace speedtorch
