#include "speedtorch/kernels/rows/partition.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace speedtorch::kernels {
namespace {

/// Positions that are counted and placed together: a few pages of the index.
constexpr std::int64_t kBlock = 4096;

/// Turns counts[block * nodes + node] into where the block's first position of the node goes, and says where
/// each node begins.
std::vector<std::int64_t> place_blocks(std::vector<std::int64_t>& counts, std::size_t nodes) {
  std::vector<std::int64_t> begins;
  std::int64_t place = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    begins.push_back(place);
    for (std::size_t at = node; at < counts.size(); at += nodes) {
      const std::int64_t here = counts[at];
      counts[at] = place;
      place += here;
    }
  }
  begins.push_back(place);
  return begins;
}

/// Deals [begin, end) out evenly to `threads`.
void deal(std::int64_t begin, std::int64_t end, const std::vector<std::size_t>& threads,
          std::vector<std::vector<Share>>& shares) {
  const auto parts = static_cast<std::int64_t>(threads.size());
  for (std::int64_t part = 0; part < parts; ++part) {
    const Share share{begin + (end - begin) * part / parts, begin + (end - begin) * (part + 1) / parts};
    if (share.begin < share.end) shares[threads[static_cast<std::size_t>(part)]].push_back(share);
  }
}

}  // namespace

template <IndexType Index>
Partition partition_by_owner(const Index* index, std::int64_t count, const RowOwners& owners,
                             ParallelFor parallel_for) {
  const auto nodes = static_cast<std::size_t>(owners.nodes());
  const std::int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<std::int64_t> places(static_cast<std::size_t>(blocks) * nodes);
  // Calls visit(position, its block's counter of its row's node).
  const auto for_positions = [&](auto visit) {
    parallel_for(blocks, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t block = first; block < last; ++block) {
        std::int64_t* own = places.data() + static_cast<std::size_t>(block) * nodes;
        for (std::int64_t i = block * kBlock; i < std::min((block + 1) * kBlock, count); ++i) {
          visit(i, own[owners.owner(index[i])]);
        }
      }
    });
  };
  for_positions([](std::int64_t, std::int64_t& counter) { ++counter; });
  Partition result;
  result.begins = place_blocks(places, nodes);
  result.positions.resize(static_cast<std::size_t>(count));
  for_positions([&](std::int64_t position, std::int64_t& place) {
    result.positions[static_cast<std::size_t>(place++)] = position;
  });
  return result;
}

template Partition partition_by_owner(const std::int32_t*, std::int64_t, const RowOwners&, ParallelFor);
template Partition partition_by_owner(const std::int64_t*, std::int64_t, const RowOwners&, ParallelFor);

std::vector<std::vector<Share>> share_by_node(const Partition& partition,
                                              std::span<const int> node_of_thread) {
  std::vector<std::vector<Share>> shares(node_of_thread.size());
  std::vector<std::size_t> all(node_of_thread.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t node = 0; node + 1 < partition.begins.size(); ++node) {
    std::vector<std::size_t> own;
    std::copy_if(all.begin(), all.end(), std::back_inserter(own),
                 [&](std::size_t thread) { return node_of_thread[thread] == static_cast<int>(node); });
    deal(partition.begins[node], partition.begins[node + 1], own.empty() ? all : own, shares);
  }
  return shares;
}

}  // namespace speedtorch::kernels
