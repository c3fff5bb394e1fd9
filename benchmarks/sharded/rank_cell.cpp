#include "benchmarks/sharded/rank_cell.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/tables/row_check.h"
#include "harness/distribution.h"
#include "harness/errors.h"
#include "harness/sampler.h"
#include "reports/number.h"

namespace stbench {
namespace {

/// The purpose of these random numbers (harness/random.h).
constexpr std::uint64_t moved_rows = 0x9ace;

}  // namespace

std::vector<std::int64_t> numbers_below(std::int64_t n) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::optional<double> remote_share(const std::string& value) {
  if (value == "drawn") return std::nullopt;
  const auto share = reports::real_from(value);
  if (!share || !(*share >= 0 && *share <= 1))
    throw UsageError(fmt::format("--remote {}: a share from 0 to 1, or drawn, is needed", value));
  return share;
}

RankCell::RankCell(RankCellTerms terms, const speedtorch::RankGroup& group)
    : terms_(std::move(terms)),
      group_(group),
      shape_(shape_of(terms_.id)),
      owners_(speedtorch::sharding_of(axis<std::string>(terms_.id, "sharding")), shape_.rows, group.size()) {
  draw_sets();
  const auto engine = axis<std::string>(terms_.id, "engine");
  const speedtorch::ShardedOptions options{.sharding = owners_.sharding(),
                                           .shard = {.placement = placement_of(terms_.id.placement)},
                                           .node_first = engine == "node"};
  if (engine != "shared") {
    std::vector<std::int64_t> mine;
    for (std::int64_t k = 0; k < owners_.rows_of(rank()); ++k) mine.push_back(owners_.row_of({rank(), k}));
    sharded_.emplace(group_, filled(mine, /*shared=*/options.node_first), shape_.rows, options);
  } else if (rank() == 0) {
    shared_ = speedtorch::SharedTable::hold(terms_.shared_name,
                                            filled(numbers_below(shape_.rows), /*shared=*/true));
  } else {
    shared_ = speedtorch::SharedTable::attach(terms_.shared_name, {.timeout = terms_.timeout});
  }
}

at::Tensor RankCell::index(int set) const {
  const auto mine = rows(set);
  return at::from_blob(const_cast<std::int64_t*>(mine.data()), {std::ssize(mine)}, at::kLong);  // only read
}

speedtorch::Table RankCell::filled(std::span<const std::int64_t> rows, bool shared) const {
  auto table = speedtorch::Table::empty({std::ssize(rows), shape_.row_elements}, shape_.dtype,
                                        {.placement = placement_of(terms_.id.placement), .shared = shared});
  auto bytes = table.host_tensor().view(at::kByte);
  fill_rows(bytes, rows, [this](std::int64_t) { return terms_.seed; });
  return table;
}

/// Moves a row to this rank or to another one, so that a row is remote with the asked probability.
std::int64_t RankCell::placed(std::int64_t row, std::optional<double> remote, harness::Random& random) const {
  if (!remote || ranks() == 1) return row;
  const bool away = random.unit() < *remote;
  const auto [holder, number] = owners_.place_of(row);
  if (away == (holder != rank())) return row;
  const auto to = away ? static_cast<int>((rank() + 1 + random.below(ranks() - 1)) % ranks()) : rank();
  return owners_.row_of({to, number % owners_.rows_of(to)});
}

void RankCell::draw_sets() {
  const harness::IndexSource source(harness::parse_distribution(terms_.distribution));
  const auto remote = remote_share(axis<std::string>(terms_.id, "remote"));
  for (int set = 0; set < harness::index_sets; ++set) {
    const auto number = set * ranks() + rank();
    harness::Random random(harness::key_of(terms_.seed, moved_rows, static_cast<std::uint64_t>(number)));
    sets_.push_back(source.draw(shape_.rows, batch(), terms_.seed, number));
    for (auto& row : sets_.back()) row = placed(row, remote, random);
  }
}

}  // namespace stbench
