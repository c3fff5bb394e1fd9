// The CUDA kernels' body, with every thread run here: it reads and writes each byte of the rows once, by
// aligned accesses, and no byte beside them.

#include "speedtorch/kernels/cuda/lane.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/speedtorch/kernels/counting_memory.h"

namespace speedtorch::kernels {
namespace {

struct Sides {
  Layout from;
  Layout to;
  Link link = Link::none;
};

std::string in_words(const Sides& sides, std::int64_t threads) {
  return std::to_string(sides.from.row_bytes) + " bytes, from " + std::to_string(sides.from.alignment) +
         " to " + std::to_string(sides.to.alignment) + ", link " + std::to_string(int(sides.link)) + ", " +
         std::to_string(threads) + " threads";
}

template <class Index>
void expect_gather(const Sides& sides, std::int64_t threads) {
  const RowBuffer table(sides.from, 1);
  RowBuffer out(sides.to, 2);
  const auto index = scattered_index<Index>(sides.to.rows, sides.from.rows);
  const auto expected = plain_gather(table, index, out);
  CountingMemory memory(table, out);
  run_threads<Index>({table.view(), out.view(), index.data(), sides.to.rows, Direction::gather,
                      plan_lanes(table.view(), out.view(), sides.link)},
                     threads, memory);
  EXPECT_TRUE(memory.loads() == once_each(table, index)) << in_words(sides, threads);
  EXPECT_TRUE(memory.stores() == once_each(out, all_rows(sides.to.rows))) << in_words(sides, threads);
  EXPECT_TRUE(out.bytes() == expected) << in_words(sides, threads);
}

template <class Index>
void expect_scatter(const Sides& sides, std::int64_t threads) {
  const RowBuffer values(sides.from, 3);
  RowBuffer table(sides.to, 4);
  const auto index = scattered_index<Index>(sides.from.rows, sides.to.rows);
  const auto expected = plain_scatter(values, index, table);
  CountingMemory memory(values, table);
  run_threads<Index>({values.view(), table.view(), index.data(), sides.from.rows, Direction::scatter,
                      plan_lanes(values.view(), table.view(), sides.link)},
                     threads, memory);
  EXPECT_TRUE(memory.loads() == once_each(values, all_rows(sides.from.rows))) << in_words(sides, threads);
  EXPECT_TRUE(memory.stores() == once_each(table, index)) << in_words(sides, threads);
  EXPECT_TRUE(table.bytes() == expected) << in_words(sides, threads);
}

template <class Index>
class CudaLane : public ::testing::Test {};
using Indices = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CudaLane, Indices);

constexpr std::int64_t kRows = 23;  // prime, so scattered_index repeats none
constexpr std::int64_t kCount = 11;
constexpr Link kLinks[] = {Link::none, Link::from, Link::to};

TYPED_TEST(CudaLane, EveryWidthMovesEachByteOnce) {
  std::vector<std::int64_t> widths = {656, 1000, 1024, 1152, 4096, 4100, 4112, 6144, 8208, 20001};
  for (std::int64_t width = 1; width <= 600; ++width) widths.push_back(width);
  for (const std::int64_t width : widths) {
    const std::int64_t gap = width % 3 == 0 ? 0 : width % 16;
    for (const Link link : kLinks) {
      expect_gather<TypeParam>({{kRows, width, 0, gap}, {kCount, width, 0, 0}, link}, 128);
      expect_scatter<TypeParam>({{kCount, width, 0, 0}, {kRows, width, 0, gap}, link}, 128);
    }
  }
}

/// Every width and every offset of the link's side from a line, with the other side at every offset to a
/// word.
TYPED_TEST(CudaLane, EveryWidthAtEveryOffsetOfTheLinkMovesEachByteOnce) {
  constexpr std::int64_t kFew = 3;
  for (std::int64_t width = 1; width <= 600; ++width) {
    for (std::int64_t offset = 0; offset < 128; ++offset) {
      const std::int64_t other = (offset / 2 + width) % 17;
      expect_gather<TypeParam>({{5, width, offset, 0}, {kFew, width, other, 0}, Link::from}, 64);
      expect_scatter<TypeParam>({{kFew, width, other, 0}, {5, width, offset, 0}, Link::to}, 64);
    }
  }
}

/// The same on both sides, for rows with gaps between them, and without a link.
TYPED_TEST(CudaLane, WidthsOfEveryClassAtEveryOffsetMoveEachByteOnce) {
  for (const std::int64_t width : {1, 12, 31, 33, 64, 66, 128, 130, 160, 258, 516, 528}) {
    for (std::int64_t offset = 0; offset < 128; ++offset) {
      for (const Link link : kLinks) {
        expect_gather<TypeParam>({{5, width, offset, 4}, {3, width, offset, 0}, link}, 64);
        expect_gather<TypeParam>({{5, width, offset, 0}, {3, width, 0, 0}, link}, 64);
        expect_scatter<TypeParam>({{3, width, offset, 0}, {5, width, offset, 8}, link}, 64);
        expect_scatter<TypeParam>({{3, width, 0, 0}, {5, width, offset, 0}, link}, 64);
      }
    }
  }
}

TYPED_TEST(CudaLane, EveryNumberOfThreadsAndRowsMovesEachByteOnce) {
  for (const std::int64_t threads : {32, 64, 256, 1024, 8192}) {
    for (const std::int64_t width : {4, 16, 64, 512, 516, 4100}) {
      for (const std::int64_t count : {1, 5, 97}) {
        const Link link = kLinks[(width + count) % 3];
        expect_gather<TypeParam>({{101, width, 0, 0}, {count, width, 0, 0}, link}, threads);
        expect_scatter<TypeParam>({{count, width, 0, 0}, {101, width, 0, 0}, link}, threads);
      }
    }
  }
}

/// On the link's side of one row, each lane stays in its own part of the lines, so that together the lanes of
/// a step cover whole lines.
void expect_whole_lines(const Sides& sides) {
  const RowBuffer from(sides.from, 1);
  RowBuffer to(sides.to, 2);
  const std::vector<std::int64_t> index{0};
  const RowBuffer& linked = sides.link == Link::from ? from : to;
  const auto plan = plan_lanes(from.view(), to.view(), sides.link);
  ASSERT_EQ(plan.shift, sides.link);
  ASSERT_EQ(plan.width() * plan.lanes() % kGpuLineBytes, 0) << "a step is whole lines";
  CountingMemory memory(from, to);
  std::int64_t thread = 0;
  const auto first = reinterpret_cast<std::uintptr_t>(linked.bytes().data()) + linked.place(0);
  const auto end = first + static_cast<std::uintptr_t>(linked.row_bytes());
  memory.on_access([&](const std::byte* at, std::size_t width) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    if (address < first || address >= end || width != static_cast<std::size_t>(plan.width())) return;
    EXPECT_EQ(address % kGpuLineBytes / width, static_cast<std::size_t>(thread) % (kGpuLineBytes / width))
        << in_words(sides, 32);
  });
  const LaneMove<std::int64_t> move{from.view(), to.view(), index.data(), 1, Direction::gather, plan};
  with_kernel(plan, [&](auto from_word, auto to_word, auto link) {
    for (thread = 0; thread < 32; ++thread)
      move_lane<decltype(from_word), decltype(to_word), decltype(link)::value>(move, {thread, 32, 0, 1},
                                                                               memory);
  });
}

TEST(CudaLaneLink, EachStepOfALongRowCoversWholeLines) {
  for (const std::int64_t width : {130, 132, 353, 514, 516, 600, 1152, 4100}) {
    for (std::int64_t offset = 0; offset < 128; ++offset) {
      expect_whole_lines({{1, width, offset, 0}, {1, width, 0, 0}, Link::from});
      expect_whole_lines({{1, width, 0, 0}, {1, width, offset, 0}, Link::to});
    }
  }
}

/// Indices that are invalid at positions 2, 5 and 7.
template <class Index>
std::vector<Index> bad_index_at_2_5_7() {
  auto index = scattered_index<Index>(kCount, kRows);
  index[2] = -1;
  index[5] = static_cast<Index>(kRows);
  index[7] = std::numeric_limits<Index>::min();
  return index;
}

void expect_three_errors(const IndexErrors& errors) {
  EXPECT_EQ(errors.count, 3u);
  EXPECT_EQ(errors.first_position, 2u);
  EXPECT_EQ(errors.seen_rows, kRows);
}

TYPED_TEST(CudaLane, GatherPoisonsTheRowsOfBadIndices) {
  for (const std::int64_t width : {3, 16, 131, 516, 9000}) {
    for (const Link link : kLinks) {
      const RowBuffer table({kRows, width, 0, 0}, 1);
      RowBuffer out({kCount, width, 0, 0}, 2);
      const auto bad = bad_index_at_2_5_7<TypeParam>();
      auto harmless = bad;
      for (const std::size_t i : {2u, 5u, 7u}) harmless[i] = 0;
      auto expected = plain_gather(table, harmless, out);
      for (const std::int64_t i : {2, 5, 7}) {
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(out.place(i)), width, std::byte{0xFF});
      }
      IndexErrors errors;
      CountingMemory memory(table, out);
      run_threads<TypeParam>({table.view(), out.view(), bad.data(), kCount, Direction::gather,
                              plan_lanes(table.view(), out.view(), link), &errors},
                             64, memory);
      EXPECT_TRUE(out.bytes() == expected) << width;
      expect_three_errors(errors);
    }
  }
}

TYPED_TEST(CudaLane, ScatterLeavesOutTheRowsOfBadIndices) {
  for (const std::int64_t width : {3, 16, 131, 516, 9000}) {
    for (const Link link : kLinks) {
      const RowBuffer values({kCount, width, 0, 0}, 1);
      RowBuffer table({kRows, width, 0, 0}, 2);
      const auto bad = bad_index_at_2_5_7<TypeParam>();
      std::vector<std::int64_t> good;
      for (std::int64_t i = 0; i < kCount; ++i) {
        if (i != 2 && i != 5 && i != 7) good.push_back(i);
      }
      const auto expected = moved(
          values, table, good.size(), [&](std::size_t i) { return good[i]; },
          [&](std::size_t i) { return bad[static_cast<std::size_t>(good[i])]; });
      IndexErrors errors;
      CountingMemory memory(values, table);
      run_threads<TypeParam>({values.view(), table.view(), bad.data(), kCount, Direction::scatter,
                              plan_lanes(values.view(), table.view(), link), &errors},
                             64, memory);
      EXPECT_TRUE(table.bytes() == expected) << width;
      expect_three_errors(errors);
    }
  }
}

TYPED_TEST(CudaLane, ReportsOneBadIndexWithItsValue) {
  const RowBuffer table({kRows, 64, 0, 0}, 1);
  RowBuffer out({kCount, 64, 0, 0}, 2);
  auto index = scattered_index<TypeParam>(kCount, kRows);
  index[4] = 77;
  IndexErrors errors;
  CountingMemory memory(table, out);
  run_threads<TypeParam>({table.view(), out.view(), index.data(), kCount, Direction::gather,
                          plan_lanes(table.view(), out.view(), Link::none), &errors},
                         64, memory);
  EXPECT_EQ(errors.seen_position, 4);
  EXPECT_EQ(errors.seen_index, 77);
  EXPECT_EQ(errors.seen_rows, kRows);
}

/// Unchecked indices are used as they are: here -1 and `rows` select the neighbours of a view of the table's
/// middle.
TYPED_TEST(CudaLane, UncheckedIndicesAreFollowed) {
  RowBuffer whole({kRows, 32, 0, 0}, 1);
  const Rows middle{whole.view().data + 5 * 32, 10, 32, 32};
  RowBuffer out({3, 32, 0, 0}, 2);
  const std::vector<TypeParam> index{-1, 3, 10};
  const std::vector<TypeParam> in_whole{4, 8, 15};
  const auto expected = plain_gather(whole, in_whole, out);
  IndexErrors errors;
  CountingMemory memory(whole, out);
  LaneMove<TypeParam> move{middle, out.view(),        index.data(),
                           3,      Direction::gather, plan_lanes(middle, out.view(), Link::none),
                           &errors};
  move.check = false;
  run_threads(move, 32, memory);
  EXPECT_TRUE(out.bytes() == expected);
  EXPECT_EQ(errors.count, 0u);
}

/// A sorted index has a permutation; a deduplicated one has a length that only the device knows.
TYPED_TEST(CudaLane, PositionsAndACountOnTheDeviceAreFollowed) {
  const RowBuffer table({kRows, 48, 0, 0}, 1);
  RowBuffer out({6, 48, 0, 0}, 2);
  const std::vector<TypeParam> sorted{1, 4, 9, 20, 77, 0};
  const std::vector<std::int32_t> positions{5, 0, 3, 1, 2, 4};
  const std::int64_t count = 5;  // the last entry does not exist
  std::vector<std::int64_t> rows{1, 4, 9, 20};
  auto expected = moved(
      table, out, 4, [&](std::size_t i) { return rows[i]; }, [&](std::size_t i) { return positions[i]; });
  std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(out.place(2)), 48, std::byte{0xFF});
  IndexErrors errors;
  CountingMemory memory(table, out);
  LaneMove<TypeParam> move{table.view(),
                           out.view(),
                           sorted.data(),
                           6,
                           Direction::gather,
                           plan_lanes(table.view(), out.view(), Link::none),
                           &errors};
  move.positions = positions.data();
  move.count_on_device = &count;
  run_threads(move, 64, memory);
  EXPECT_TRUE(out.bytes() == expected);
  EXPECT_EQ(errors.count, 1u);
  EXPECT_EQ(errors.first_position, 2u) << "of the index as the caller gave it";
}

TEST(CopyLane, EverySizeAlignmentAndGridCopiesEachByteOnce) {
  std::vector<std::int64_t> sizes = {1000, 4099, 65536};
  for (std::int64_t bytes = 1; bytes < 80; ++bytes) sizes.push_back(bytes);
  for (const std::int64_t bytes : sizes) {
    for (std::int64_t from_at = 0; from_at < 17; from_at += 3) {
      for (std::int64_t to_at = 0; to_at < 17; ++to_at) {
        const RowBuffer from({1, bytes, from_at, 0}, 1);
        RowBuffer to({1, bytes, to_at, 0}, 2);
        const auto expected = plain_gather(from, std::vector<std::int64_t>{0}, to);
        const CopyPlan plan = plan_copy(to.view().data, from.view().data, bytes);
        const std::int64_t threads = bytes % 2 == 0 ? 32 : 256;
        CountingMemory memory(from, to);
        with_word(plan.width, [&](auto word) {
          for (std::int64_t thread = 0; thread < threads; ++thread) {
            copy_lane<decltype(word)>(to.view().data, from.view().data, plan, thread, threads, memory);
          }
        });
        EXPECT_TRUE(memory.stores() == once_each(to, std::vector<std::int64_t>{0})) << bytes;
        EXPECT_TRUE(memory.loads() == once_each(from, std::vector<std::int64_t>{0})) << bytes;
        EXPECT_TRUE(to.bytes() == expected) << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace speedtorch::kernels
