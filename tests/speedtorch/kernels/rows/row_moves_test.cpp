// Every instruction set that this machine has, every way to store: every width at every alignment, and memory
// that ends at a page that no one may touch.

#include "speedtorch/kernels/rows/row_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "tests/speedtorch/kernels/forced_isa.h"
#include "tests/speedtorch/kernels/row_buffer.h"
#include "tests/speedtorch/kernels/row_trial.h"

namespace speedtorch::kernels {
namespace {

constexpr Direction kDirections[] = {Direction::gather, Direction::scatter};

using RowMoves = OnPath;

/// Tries what the sweep visits until one fails.
template <class Index, class Sweep>
void expect_all(Sweep sweep) {
  Trials<Index> trials;
  bool good = true;
  sweep([&](const Trial& trial) {
    if (!good) return;
    good = trials.moves_as_the_plain_loop(trial);
    EXPECT_TRUE(good) << describe(trial) << ", " << 8 * sizeof(Index) << "-bit indices";
  });
}

TEST_P(RowMoves, EveryWidthAtEveryAlignmentOfEitherSide) {
  for (const Direction direction : kDirections) {
    const auto sweep = [&](auto visit) { for_every_width(direction, stores(), visit); };
    expect_all<std::int32_t>(sweep);
    expect_all<std::int64_t>(sweep);
  }
}

TEST_P(RowMoves, EveryPairOfAlignments) {
  for (const Direction direction : kDirections) {
    const auto sweep = [&](auto visit) { for_every_alignment(direction, stores(), visit); };
    expect_all<std::int32_t>(sweep);
    expect_all<std::int64_t>(sweep);
  }
}

TEST_P(RowMoves, TouchNoByteBeyondTheMemory) {
  for (const Direction direction : kDirections) {
    for (const bool at_end : {false, true}) {
      EXPECT_EQ(fault_at_guards<std::int32_t>(direction, stores(), at_end), "");
      EXPECT_EQ(fault_at_guards<std::int64_t>(direction, stores(), at_end), "");
    }
  }
}

/// Gathers with the path's stores and compares all of the output's memory.
template <class Index>
void expect_gather(const std::vector<Index>& index, std::int64_t width, Stores stores) {
  const auto count = static_cast<std::int64_t>(index.size());
  const RowBuffer table({53, width, 3, 0}, 1);
  RowBuffer out({count, width, 40, 2}, 2);
  const auto expected = plain_gather(table, index, out);
  run(plan_forced(Direction::gather, table.view(), index.data(), out.view(), stores, 4), 0, count);
  EXPECT_TRUE(out.bytes() == expected) << count << " rows of " << width << " bytes";
}

TEST_P(RowMoves, GatherRepeatsRows) {
  for (const std::int64_t width : {1, 20, 64, 160, 512, 516}) {
    expect_gather<std::int32_t>({7, 7, 0, 52, 7, 0, 52, 52, 52, 7, 7, 7}, width, stores());
    expect_gather<std::int64_t>({7, 7, 0, 52, 7, 0, 52, 52, 52, 7, 7, 7}, width, stores());
  }
}

TEST_P(RowMoves, NoRowAndOneRow) {
  for (const std::int64_t width : {1, 20, 64, 160, 512, 516}) {
    expect_gather<std::int32_t>({}, width, stores());
    expect_gather<std::int64_t>({52}, width, stores());
    for (const std::int64_t count : {0, 1}) {
      const RowBuffer values({count, width, 5, 0}, 1);
      RowBuffer table({53, width, 9, 1}, 2);
      const auto index = scattered_index<std::int64_t>(count, 53);
      const auto expected = plain_scatter(values, index, table);
      run(plan_forced(Direction::scatter, values.view(), index.data(), table.view(), stores(), 4), 0, count);
      EXPECT_TRUE(table.bytes() == expected) << count << " rows of " << width << " bytes";
    }
  }
}

TEST_P(RowMoves, APartOfTheIndicesMovesItsRowsOnly) {
  constexpr std::int64_t kCount = 50;
  const auto index = scattered_index<std::int64_t>(kCount, 53);
  for (const std::int64_t width : {4, 16, 160, 520}) {
    const RowBuffer table({53, width, 0, 0}, 1);
    for (std::int64_t begin = 0; begin < kCount; begin += 7) {
      for (std::int64_t end = begin; end <= kCount; end += 5) {
        RowBuffer out({kCount, width, 0, 0}, 2);
        const auto expected = moved(
            table, out, static_cast<std::size_t>(end - begin),
            [&](std::size_t i) { return index[static_cast<std::size_t>(begin) + i]; },
            [&](std::size_t i) { return begin + static_cast<std::int64_t>(i); });
        run(plan_forced(Direction::gather, table.view(), index.data(), out.view(), stores(), 8), begin, end);
        ASSERT_TRUE(out.bytes() == expected) << width << " bytes, " << begin << " to " << end;
      }
    }
  }
}

TEST_P(RowMoves, ManyRowsFillAStageAgainAndAgain) {
  for (const std::int64_t width : {1, 20, 63, 160, 516, 1000, 2047, 2048}) {
    const std::int64_t count = 40'000 / width + 3;
    const auto index = scattered_index<std::int64_t>(count, 50'021);
    const RowBuffer table({50'021, width, 3, 0}, 1);
    for (const std::int64_t alignment : {0, 1, 31, 63}) {
      RowBuffer out({count, width, alignment, 0}, 2);
      auto expected = plain_gather(table, index, out);
      const auto move =
          plan_forced(Direction::gather, table.view(), index.data(), out.view(), stores(), 8, PrefetchTo::l2);
      // Two parts, as of two threads, that share a line.
      run(move, count / 3, count);
      run(move, 0, count / 3);
      EXPECT_TRUE(out.bytes() == expected) << count << " rows of " << width << " bytes from " << alignment;
    }
  }
}

/// A bad index at each place of each count up to several vectors.
template <class Index>
void expect_bad_index_found() {
  constexpr std::int64_t kRows = 6;
  for (std::int64_t count = 1; count <= 70; ++count) {
    std::vector<Index> index(static_cast<std::size_t>(count), 5);
    EXPECT_TRUE(all_inside(index.data(), count, kRows));
    for (Index& value : index) {
      for (const Index bad :
           {Index{6}, Index{-1}, std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max()}) {
        value = bad;
        EXPECT_FALSE(all_inside(index.data(), count, kRows)) << bad << " among " << count;
      }
      value = 0;
    }
  }
}

TEST_P(RowMoves, CheckFindsABadIndexAtEveryPlace) {
  expect_bad_index_found<std::int32_t>();
  expect_bad_index_found<std::int64_t>();
}

/// Streams lines from a block of so many in each way.
void expect_streamed(std::int64_t alignment, std::int64_t lines, std::int64_t of_lines) {
  for (const auto way : {CopyWay::plain, CopyWay::ahead, CopyWay::pages}) {
    const RowBuffer from({1, 64 * of_lines, alignment, 0}, 1);
    RowBuffer to({1, 64 * of_lines, 0, 0}, 2);
    auto expected = to.bytes();
    std::copy_n(from.view().data, 64 * lines, expected.begin() + static_cast<std::ptrdiff_t>(to.place(0)));
    stream_lines(to.view().data, from.view().data, lines, way);
    EXPECT_TRUE(to.bytes() == expected)
        << lines << " lines from alignment " << alignment << ", way " << static_cast<int>(way);
  }
}

TEST_P(RowMoves, LinesAreStreamedWhole) {
  for (std::int64_t alignment = 0; alignment < 64; ++alignment) {
    for (std::int64_t lines = 0; lines <= 9; ++lines) expect_streamed(alignment, lines, 10);
  }
}

TEST_P(RowMoves, PagesInTurnAreStreamedWhole) {
  constexpr std::int64_t kGroup = 8 * 64;  // lines of eight pages
  for (const std::int64_t lines : {kGroup - 1, kGroup, kGroup + 1, 2 * kGroup + 65, 3 * kGroup})
    expect_streamed(17, lines, 3 * kGroup + 1);
}

INSTANTIATE_TEST_SUITE_P(Paths, RowMoves, all_paths(), path_name);

}  // namespace
}  // namespace speedtorch::kernels
