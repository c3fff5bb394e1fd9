// Every instruction set that this machine has, every way to store: every width at every alignment, and memory
// that ends at a page that no one may touch.

#include "kernels/row_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "tests/kernels/forced_isa.h"
#include "tests/kernels/guarded_memory.h"
#include "tests/kernels/row_buffer.h"
#include "tests/kernels/row_trial.h"

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

/// The first and the last of the rows are among the indices; table, index and output touch the forbidden
/// page.
template <class Index>
void expect_no_byte_beyond(Direction direction, Stores stores, bool at_end) {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kMost = kRows * (kTrialWidest + 3);
  const GuardedMemory from_memory(kMost), to_memory(kMost), index_memory(64);
  const auto place = [at_end](const GuardedMemory& memory, std::int64_t bytes) {
    return at_end ? memory.last(bytes) : memory.first();
  };
  const auto order = scattered_index<Index>(kRows, kRows);
  auto* index =
      reinterpret_cast<Index*>(place(index_memory, kRows * static_cast<std::int64_t>(sizeof(Index))));
  std::copy(order.begin(), order.end(), index);
  for (std::int64_t i = 0; i < kMost; ++i)
    from_memory.last(kMost)[i] = pattern(1, static_cast<std::uint64_t>(i));
  std::copy_n(from_memory.last(kMost), at_end ? 0 : kMost, from_memory.first());

  for (std::int64_t width = 1; width <= kTrialWidest; ++width) {
    const std::int64_t stride = width + width % 4;
    const std::int64_t bytes = (kRows - 1) * stride + width;
    const std::byte* from = place(from_memory, bytes);
    std::byte* to = place(to_memory, bytes);
    std::fill_n(to, bytes, std::byte{0});
    ASSERT_TRUE(all_inside(index, kRows, kRows));
    run(plan_forced<Index>(direction, {from, kRows, width, stride}, index, {to, kRows, width, stride}, stores,
                           2),
        0, kRows);
    for (std::int64_t i = 0; i < kRows; ++i) {
      const std::int64_t row = order[static_cast<std::size_t>(i)];
      const bool gather = direction == Direction::gather;
      ASSERT_EQ(std::memcmp(to + (gather ? i : row) * stride, from + (gather ? row : i) * stride,
                            static_cast<std::size_t>(width)),
                0)
          << width << " bytes, row " << i;
    }
  }
}

TEST_P(RowMoves, TouchNoByteBeyondTheMemory) {
  for (const Direction direction : kDirections) {
    for (const bool at_end : {false, true}) {
      expect_no_byte_beyond<std::int32_t>(direction, stores(), at_end);
      expect_no_byte_beyond<std::int64_t>(direction, stores(), at_end);
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

TEST_P(RowMoves, LinesAreStreamedWhole) {
  for (std::int64_t alignment = 0; alignment < 64; ++alignment) {
    for (std::int64_t lines = 0; lines <= 9; ++lines) {
      const RowBuffer from({1, 64 * 10, alignment, 0}, 1);
      RowBuffer to({1, 64 * 10, 0, 0}, 2);
      auto expected = to.bytes();
      std::copy_n(from.view().data, 64 * lines, expected.begin() + static_cast<std::ptrdiff_t>(to.place(0)));
      stream_lines(to.view().data, from.view().data, lines);
      EXPECT_TRUE(to.bytes() == expected) << lines << " lines from alignment " << alignment;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, RowMoves, all_paths(), path_name);

}  // namespace
}  // namespace speedtorch::kernels
