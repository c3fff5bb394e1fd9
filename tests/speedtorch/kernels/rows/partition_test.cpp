// Made-up topologies of two and four nodes: each position once, on its owner, in order, whatever the split.

#include "speedtorch/kernels/rows/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

constexpr std::int64_t kRows = 1000;
constexpr std::int64_t kPast = std::numeric_limits<std::int64_t>::max();

/// How a table lies, and the plain answer to whose a row is.
struct Topology {
  std::string name;
  RowOwners owners;
  int (*plain_owner)(std::int64_t row);
};

/// Rows of 96 bytes, the first 4000 bytes into a page: some cross into the next.
int interleaved_on_three(std::int64_t row) { return static_cast<int>((4000 + row * 96) / 4096 + 2) % 3; }

std::vector<Topology> topologies() {
  return {
      {"TwoEven", RowOwners::ranges(2, {{500, 0}, {kPast, 1}}),
       [](std::int64_t row) { return row < 500 ? 0 : 1; }},
      {"TwoUneven", RowOwners::ranges(2, {{3, 1}, {kRows, 0}}),
       [](std::int64_t row) { return row < 3 ? 1 : 0; }},
      {"FourWithTwoEmpty", RowOwners::ranges(4, {{1, 3}, {kRows, 1}}),
       [](std::int64_t row) { return row < 1 ? 3 : 1; }},
      {"FourInSixRanges",
       RowOwners::ranges(4, {{100, 2}, {101, 0}, {400, 3}, {600, 1}, {900, 0}, {kRows, 2}}),
       [](std::int64_t row) {
         return row < 100 ? 2 : row < 101 ? 0 : row < 400 ? 3 : row < 600 ? 1 : row < 900 ? 0 : 2;
       }},
      {"AllOnTheLast", RowOwners::ranges(4, {{kRows, 3}}), [](std::int64_t) { return 3; }},
      {"One", RowOwners::ranges(1, {{kRows, 0}}), [](std::int64_t) { return 0; }},
      {"InterleavedOnThree", RowOwners::interleaved(3, 2, 4000, 96, 4096), interleaved_on_three},
  };
}

template <class Index>
std::vector<Index> random_index(std::int64_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(count));
  std::vector<Index> index(static_cast<std::size_t>(count));
  for (Index& row : index) row = static_cast<Index>(random() % kRows);
  return index;
}

class EachTopology : public ::testing::TestWithParam<Topology> {};

TEST_P(EachTopology, TellsTheOwnerOfEveryRow) {
  for (std::int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(GetParam().owners.owner(row), GetParam().plain_owner(row)) << row;
  }
}

/// The plain way: one list a node, filled in order.
template <class Index>
Partition plain_partition(const std::vector<Index>& index, const Topology& topology) {
  std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(topology.owners.nodes()));
  for (std::size_t i = 0; i < index.size(); ++i) {
    lists[static_cast<std::size_t>(topology.plain_owner(index[i]))].push_back(static_cast<std::int64_t>(i));
  }
  Partition result;
  result.begins.push_back(0);
  for (const auto& list : lists) {
    result.positions.insert(result.positions.end(), list.begin(), list.end());
    result.begins.push_back(static_cast<std::int64_t>(result.positions.size()));
  }
  return result;
}

template <class Index>
void expect_partition(const Topology& topology, std::int64_t count, ParallelFor parallel_for) {
  const auto index = random_index<Index>(count);
  const auto expected = plain_partition(index, topology);
  const auto found = partition_by_owner(index.data(), count, topology.owners, parallel_for);
  EXPECT_EQ(found.begins, expected.begins) << count;
  EXPECT_TRUE(found.positions == expected.positions) << count;
}

TEST_P(EachTopology, HasEachPositionOnceOnItsOwnerInOrder) {
  const ThreadPool four(4);
  for (const std::int64_t count : {0, 1, 7, 4095, 4096, 4097, 50000}) {
    expect_partition<std::int32_t>(GetParam(), count, serial_for);
    expect_partition<std::int64_t>(GetParam(), count, four);
  }
}

/// How many positions each thread got of each node; fails where one is shared out twice or not at all.
std::map<std::pair<std::size_t, int>, std::int64_t> positions_of(
    const Partition& partition, const std::vector<std::vector<Share>>& shares) {
  std::map<std::pair<std::size_t, int>, std::int64_t> got;
  std::vector<int> times(partition.positions.size());
  for (std::size_t thread = 0; thread < shares.size(); ++thread) {
    for (const Share& share : shares[thread]) {
      for (std::int64_t place = share.begin; place < share.end; ++place) {
        const auto past = std::upper_bound(partition.begins.begin(), partition.begins.end(), place);
        ++got[{thread, static_cast<int>(past - partition.begins.begin()) - 1}];
        ++times[static_cast<std::size_t>(place)];
      }
    }
  }
  EXPECT_EQ(std::count(times.begin(), times.end(), 1), static_cast<std::ptrdiff_t>(times.size()));
  return got;
}

TEST_P(EachTopology, IsSharedEvenlyAmongTheThreadsOfEachNode) {
  const auto index = random_index<std::int64_t>(10007);
  const auto partition = partition_by_owner(index.data(), 10007, GetParam().owners, serial_for);
  for (const std::vector<int>& nodes :
       {std::vector<int>{0}, {0, 1}, {1, 0, 1}, {0, 0, 0, 1}, {3, 2, 1, 0, 0, 1, 2, 3}, {7}}) {
    const auto got = positions_of(partition, share_by_node(partition, nodes));
    for (int node = 0; node < GetParam().owners.nodes(); ++node) {
      const auto there = std::count(nodes.begin(), nodes.end(), node);
      const auto all = partition.begins[static_cast<std::size_t>(node) + 1] -
                       partition.begins[static_cast<std::size_t>(node)];
      for (std::size_t thread = 0; thread < nodes.size(); ++thread) {
        const bool takes_part = there == 0 || nodes[thread] == node;
        const auto parts = there == 0 ? static_cast<std::int64_t>(nodes.size()) : std::int64_t{there};
        const auto found = got.find({thread, node});
        const std::int64_t part = found == got.end() ? 0 : found->second;
        EXPECT_GE(part, takes_part ? all / parts : 0) << "node " << node << ", thread " << thread;
        EXPECT_LE(part, takes_part ? all / parts + 1 : 0) << "node " << node << ", thread " << thread;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Made, EachTopology, ::testing::ValuesIn(topologies()),
                         [](const auto& topology) { return topology.param.name; });

}  // namespace
}  // namespace speedtorch::kernels
