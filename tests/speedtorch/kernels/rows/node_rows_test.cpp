#include "speedtorch/kernels/rows/node_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "speedtorch/kernels/error.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"
#include "tests/speedtorch/kernels/row_buffer.h"
#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

constexpr std::int64_t kRows = 5003;  // prime: scattered_index repeats none up to it

/// One thread an item, as a pinned pool does it.
const ThreadPool many{64};

template <class Index>
class NodeRows : public ::testing::Test {};
using Indices = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(NodeRows, Indices);

template <class Index>
void expect_both(const RowOwners& owners, const std::vector<int>& nodes, std::int64_t count,
                 std::int64_t width, std::int64_t rows = kRows) {
  const auto index = scattered_index<Index>(count, rows);
  const NodeThreads threads{nodes, many};
  const RowBuffer table({rows, width, 4, 3}, 1);
  RowBuffer out({count, width, 0, 1}, 2);
  const auto gathered = plain_gather(table, index, out);
  gather_rows_by_node(table.view(), index.data(), count, out.view(), owners, threads);
  EXPECT_TRUE(out.bytes() == gathered) << count << " rows of " << width << " bytes";

  RowBuffer back({rows, width, 9, 2}, 3);
  const auto scattered = plain_scatter(out, index, back);
  scatter_rows_by_node(out.view(), index.data(), count, back.view(), owners, threads);
  EXPECT_TRUE(back.bytes() == scattered) << count << " rows of " << width << " bytes";
}

TYPED_TEST(NodeRows, MoveAsThePlainLoopOnEveryTopology) {
  const std::vector<RowOwners> all = {
      RowOwners::ranges(1, {{kRows, 0}}),
      RowOwners::ranges(2, {{kRows / 3, 0}, {kRows, 1}}),
      RowOwners::ranges(4, {{10, 2}, {4000, 0}, {kRows, 3}}),
      RowOwners::interleaved(2, 1, 100, 19, 4096),
  };
  for (const RowOwners& owners : all) {
    for (const std::vector<int>& nodes : {std::vector<int>{0}, {0, 1}, {1, 1, 0, 3}}) {
      for (const std::int64_t count : {0, 1, 5000}) expect_both<TypeParam>(owners, nodes, count, 16);
    }
  }
}

/// Rows of which the stage holds its most, several, one, and less than one.
TYPED_TEST(NodeRows, OfAnyWidthMoveAsThePlainLoop) {
  for (const std::int64_t width : {1, 63, 64, 100, 512}) {
    expect_both<TypeParam>(RowOwners::ranges(2, {{1500, 0}, {kRows, 1}}), {0, 1}, 2500, width);
  }
  for (const std::int64_t width : {3000, 64 << 10, 100000}) {
    expect_both<TypeParam>(RowOwners::ranges(2, {{3, 0}, {11, 1}}), {0, 1}, 9, width, 11);
  }
}

/// With one of four threads at work, what lies on its node is moved, half of it where two share the node, and
/// nothing else.
TYPED_TEST(NodeRows, AreMovedByTheThreadsOfTheirOwner) {
  constexpr std::int64_t kCount = 1000;
  const auto owners = RowOwners::ranges(3, {{2000, 0}, {3000, 2}, {kRows, 1}});
  const std::vector<int> nodes = {1, 0, 2, 0};
  const auto index = scattered_index<TypeParam>(kCount, kRows);
  const RowBuffer table({kRows, 8, 0, 0}, 1);
  for (std::int64_t thread = 0; thread < 4; ++thread) {
    const auto one_works = [&](std::int64_t n, std::int64_t, RangeBody body) {
      return n == 4 ? body(thread, thread + 1)
                    : body(0, n);  // 1000 indices are checked and sorted in one piece
    };
    RowBuffer out({kCount, 8, 0, 0}, 2);
    gather_rows_by_node(table.view(), index.data(), kCount, out.view(), owners, {nodes, one_works});
    std::int64_t moved_here = 0, all_here = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      const auto row = index[static_cast<std::size_t>(i)];
      const bool moved = std::memcmp(out.view().data + i * 8, table.view().data + row * 8, 8) == 0;
      const bool here = owners.owner(row) == nodes[static_cast<std::size_t>(thread)];
      EXPECT_TRUE(here || !moved) << row;
      moved_here += moved;
      all_here += here;
    }
    EXPECT_NEAR(static_cast<double>(moved_here), static_cast<double>(all_here) / (thread % 2 == 0 ? 1 : 2),
                1);
  }
}

TYPED_TEST(NodeRows, PastTheCacheMoveAsThePlainLoop) {
  constexpr std::int64_t kWidth = 512;
  const std::int64_t rows = plan_in_use().gather.large_from / kWidth + 100;
  std::vector<TypeParam> index(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i)
    index[static_cast<std::size_t>(i)] = static_cast<TypeParam>(rows - 1 - i);
  const auto owners = RowOwners::ranges(2, {{rows / 3, 1}, {rows, 0}});
  const RowBuffer table({rows, kWidth, 0, 0}, 1);
  RowBuffer out({rows, kWidth, 0, 0}, 2), back({rows, kWidth, 0, 0}, 3);
  const auto expected = plain_gather(table, index, out);
  gather_rows_by_node(table.view(), index.data(), rows, out.view(), owners, {std::array{0, 1}, many});
  EXPECT_TRUE(out.bytes() == expected);
  scatter_rows_by_node(out.view(), index.data(), rows, back.view(), owners, {std::array{0, 1}, many});
  EXPECT_EQ(std::memcmp(back.view().data, table.view().data, static_cast<std::size_t>(rows * kWidth)), 0);
}

TYPED_TEST(NodeRows, GatherRepeatsRows) {
  const auto owners = RowOwners::ranges(2, {{1, 0}, {3, 1}});
  const std::vector<TypeParam> index = {2, 2, 0, 1, 0, 0, 2};
  const RowBuffer table({3, 24, 0, 0}, 1);
  RowBuffer out({7, 24, 0, 0}, 2);
  const auto expected = plain_gather(table, index, out);
  gather_rows_by_node(table.view(), index.data(), 7, out.view(), owners, {std::array{1, 0}, serial_for});
  EXPECT_TRUE(out.bytes() == expected);
}

TYPED_TEST(NodeRows, RefuseWhatTheOthersRefuse) {
  const auto owners = RowOwners::ranges(2, {{5, 0}, {10, 1}});
  const NodeThreads threads{std::array{0, 1}, serial_for};
  RowBuffer table({10, 8, 0, 0}, 1), narrow({3, 4, 0, 0}, 2), out({3, 8, 0, 0}, 3);
  const auto before = out.bytes();
  const std::vector<TypeParam> good = {1, 2, 3};
  for (const TypeParam bad : {TypeParam{10}, TypeParam{-1}}) {
    const std::vector<TypeParam> index = {1, bad, 3};
    EXPECT_THROW(gather_rows_by_node(table.view(), index.data(), 3, out.view(), owners, threads), IndexError);
    EXPECT_THROW(scatter_rows_by_node(out.view(), index.data(), 3, table.view(), owners, threads),
                 IndexError);
  }
  EXPECT_TRUE(out.bytes() == before);
  EXPECT_THROW(gather_rows_by_node(table.view(), good.data(), 3, narrow.view(), owners, threads), ShapeError);
  EXPECT_THROW(scatter_rows_by_node(narrow.view(), good.data(), 3, table.view(), owners, threads),
               ShapeError);
}

}  // namespace
}  // namespace speedtorch::kernels
