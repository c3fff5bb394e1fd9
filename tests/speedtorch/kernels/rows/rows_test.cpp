#include "speedtorch/kernels/rows/rows.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "speedtorch/kernels/error.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"
#include "tests/speedtorch/kernels/row_buffer.h"
#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

constexpr std::int64_t kTableRows = 53;  // prime: scattered_index repeats none up to 53

const ThreadPool two_threads{2};

template <class Index>
concept NamesRows = requires(const Index* index, ConstRows from, Rows to) {
  check_indices(index, 1, 1);
  gather_rows(from, index, 1, to, two_threads);
  scatter_rows(from, index, 1, to, two_threads);
};
static_assert(NamesRows<std::int32_t> && NamesRows<std::int64_t>);
static_assert(!NamesRows<std::int16_t> && !NamesRows<std::uint32_t> && !NamesRows<std::uint64_t>);

/// Hands out ranges backwards and much shorter than the grain: a kernel must not mind.
void backwards(std::int64_t n, std::int64_t /*grain*/, RangeBody body) {
  for (std::int64_t end = n; end > 0; end -= 3) body(std::max<std::int64_t>(end - 3, 0), end);
}

template <class Index>
class RowsTest : public ::testing::Test {};
using Indices = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(RowsTest, Indices);

template <class Index>
void expect_gather(const Layout& table_layout, const Layout& out_layout, const std::vector<Index>& index) {
  const RowBuffer table(table_layout, 1);
  RowBuffer out(out_layout, 2);
  const auto expected = plain_gather(table, index, out);
  gather_rows(table.view(), index.data(), out.rows(), out.view(), two_threads);
  EXPECT_TRUE(out.bytes() == expected) << "row bytes " << out.row_bytes();
}

template <class Index>
void expect_scatter(const Layout& values_layout, const Layout& table_layout,
                    const std::vector<Index>& index) {
  const RowBuffer values(values_layout, 3);
  RowBuffer table(table_layout, 4);
  const auto expected = plain_scatter(values, index, table);
  scatter_rows(values.view(), index.data(), values.rows(), table.view(), two_threads);
  EXPECT_TRUE(table.bytes() == expected) << "row bytes " << table.row_bytes();
}

std::vector<std::int64_t> sampled_widths() {
  std::vector<std::int64_t> widths(140);
  std::iota(widths.begin(), widths.end(), 1);
  for (std::int64_t width = 141; width <= 600; width += 7) widths.push_back(width);
  for (const std::int64_t width : {256, 511, 512, 513, 516, 1024, 4096, 4100, 40000}) widths.push_back(width);
  return widths;
}

TYPED_TEST(RowsTest, EveryWidthMovesAsThePlainLoop) {
  const auto index = scattered_index<TypeParam>(31, kTableRows);
  for (const std::int64_t width : sampled_widths()) {
    for (const std::int64_t gap : {0, 5}) {
      expect_gather<TypeParam>({kTableRows, width, 0, gap}, {31, width, 0, 2 * gap}, index);
      expect_scatter<TypeParam>({31, width, 0, gap}, {kTableRows, width, 0, 2 * gap}, index);
    }
  }
}

TYPED_TEST(RowsTest, EveryAlignmentMovesAsThePlainLoop) {
  const auto index = scattered_index<TypeParam>(11, kTableRows);
  for (const std::int64_t width : {1, 4, 12, 64, 129, 516}) {
    for (std::int64_t alignment = 0; alignment < 64; ++alignment) {
      const std::int64_t other = (alignment * 29 + 3) % 64;
      expect_gather<TypeParam>({kTableRows, width, alignment, 3}, {11, width, other, 0}, index);
      expect_scatter<TypeParam>({11, width, alignment, 0}, {kTableRows, width, other, 3}, index);
    }
  }
}

TYPED_TEST(RowsTest, GatherRepeatsRows) {
  const std::vector<TypeParam> index = {7, 7, 0, 52, 7, 0, 52, 52};
  expect_gather<TypeParam>({kTableRows, 20, 0, 0}, {8, 20, 0, 0}, index);
}

TYPED_TEST(RowsTest, OneRow) {
  expect_gather<TypeParam>({1, 516, 0, 0}, {1, 516, 0, 0}, std::vector<TypeParam>{0});
  expect_scatter<TypeParam>({1, 516, 0, 0}, {1, 516, 0, 0}, std::vector<TypeParam>{0});
}

TYPED_TEST(RowsTest, NoRowsIsNoWork) {
  const TypeParam* none = nullptr;
  RowBuffer table({kTableRows, 8, 0, 0}, 1);
  const auto before = table.bytes();
  gather_rows({nullptr, 0, 8, 8}, none, 0, {nullptr, 0, 8, 8}, two_threads);
  scatter_rows({nullptr, 0, 8, 8}, none, 0, table.view(), two_threads);
  EXPECT_TRUE(table.bytes() == before);
}

TYPED_TEST(RowsTest, RowsThatShareBytesCanBeRead) {
  const RowBuffer table({4, 64, 0, 0}, 1);
  RowBuffer out({3, 16, 0, 0}, 2);
  const std::vector<TypeParam> index = {0, 40, 3};
  const ConstRows windows{table.view().data, 200, 16, 1};  // row i is 16 bytes from byte i
  gather_rows(windows, index.data(), 3, out.view(), serial_for);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::byte* expected = table.view().data + index[i];
    EXPECT_TRUE(std::equal(expected, expected + 16, out.view().data + 16 * i)) << i;
  }
}

TYPED_TEST(RowsTest, AnySplitOfTheLoopMovesTheSame) {
  constexpr std::int64_t kCount = 9973;  // prime; above the grain for 36-byte rows
  const auto index = scattered_index<TypeParam>(kCount, kCount);
  const RowBuffer table({kCount, 36, 4, 0}, 1);
  for (const ParallelFor split :
       {ParallelFor(backwards), ParallelFor(two_threads), ParallelFor(serial_for)}) {
    RowBuffer out({kCount, 36, 0, 0}, 2);
    const auto gathered = plain_gather(table, index, out);
    gather_rows(table.view(), index.data(), kCount, out.view(), split);
    EXPECT_TRUE(out.bytes() == gathered);

    RowBuffer back({kCount, 36, 0, 4}, 3);
    const auto scattered = plain_scatter(out, index, back);
    scatter_rows(out.view(), index.data(), kCount, back.view(), split);
    EXPECT_TRUE(back.bytes() == scattered);
  }
}

TYPED_TEST(RowsTest, BadIndexIsNamedAndNothingIsWritten) {
  const RowBuffer rows({40, 24, 0, 0}, 1);
  RowBuffer target({40, 24, 0, 0}, 2);
  const auto before = target.bytes();
  for (const TypeParam bad : {TypeParam{-1}, TypeParam{40}, std::numeric_limits<TypeParam>::min(),
                              std::numeric_limits<TypeParam>::max()}) {
    for (const std::size_t position : {0u, 1u, 17u, 39u}) {
      auto index = scattered_index<TypeParam>(40, 40);
      index[position] = bad;
      index[39] = bad;  // the first one is named
      const auto expect_named = [&](auto move) {
        try {
          move();
          ADD_FAILURE() << "index " << bad << " at " << position << " was taken";
        } catch (const IndexError& error) {
          EXPECT_EQ(error.position(), static_cast<std::int64_t>(position));
          EXPECT_EQ(error.index(), bad);
          EXPECT_EQ(error.rows(), 40);
        }
      };
      expect_named([&] { gather_rows(rows.view(), index.data(), 40, target.view(), two_threads); });
      expect_named([&] { scatter_rows(rows.view(), index.data(), 40, target.view(), two_threads); });
    }
  }
  EXPECT_TRUE(target.bytes() == before);
}

TYPED_TEST(RowsTest, BadIndexIsFoundInEveryThreadsPart) {
  constexpr std::int64_t kCount = 1 << 20;
  std::vector<TypeParam> index(kCount, 0);
  RowBuffer table({1, 1, 0, 0}, 1);
  std::vector<std::byte> out(kCount, std::byte{9});
  index.back() = 1;
  EXPECT_THROW(gather_rows(table.view(), index.data(), kCount, {out.data(), kCount, 1, 1}, two_threads),
               IndexError);
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](std::byte b) { return b == std::byte{9}; }));
}

TYPED_TEST(RowsTest, ShapesThatDoNotFitAreRefused) {
  RowBuffer narrow({10, 8, 0, 0}, 1);
  RowBuffer wide({10, 12, 0, 0}, 2);
  const std::vector<TypeParam> index(10, 0);
  const TypeParam* at = index.data();
  EXPECT_THROW(gather_rows(narrow.view(), at, 10, wide.view(), serial_for), ShapeError);
  EXPECT_THROW(gather_rows(narrow.view(), at, 9, narrow.view(), serial_for), ShapeError);
  EXPECT_THROW(scatter_rows(wide.view(), at, 10, narrow.view(), serial_for), ShapeError);
  EXPECT_THROW(scatter_rows(narrow.view(), at, 9, narrow.view(), serial_for), ShapeError);
}

/// Rows from anywhere to anywhere: `out` gets all but one of its rows.
void expect_places(const Layout& table_layout, const Layout& out_layout) {
  const RowBuffer table(table_layout, 1);
  RowBuffer out(out_layout, 2);
  const auto rows = out.rows(), count = rows - 1;
  const auto index = scattered_index<std::int64_t>(count, table.rows());
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) places[static_cast<std::size_t>(i)] = (rows - i + 3) % rows;
  auto picked = scattered_index<std::int64_t>(rows, table.rows());  // what the plain loop gathers
  for (std::int64_t i = 0; i < count; ++i)
    picked[static_cast<std::size_t>(places[static_cast<std::size_t>(i)])] =
        index[static_cast<std::size_t>(i)];
  const auto untouched = (rows - count + 3) % rows;
  const auto first = out.view().data + untouched * out.view().stride_bytes;
  const std::vector<std::byte> before(first, first + out.row_bytes());
  auto expected = plain_gather(table, picked, out);
  const auto at = first - out.bytes().data();
  std::copy(before.begin(), before.end(), expected.begin() + at);
  place_rows(table.view(), index.data(), places.data(), count, out.view(), two_threads);
  EXPECT_TRUE(out.bytes() == expected) << "row bytes " << out.row_bytes();
}

TEST(PlaceRows, EveryWidthMovesAsThePlainLoop) {
  for (const std::int64_t width : sampled_widths())
    for (const std::int64_t gap : {0, 5})
      for (const std::int64_t rows : {2, 31})  // of which one is left out
        expect_places({kTableRows, width, 0, gap}, {rows, width, 0, 2 * gap});
}

TEST(PlaceRows, MovesPastTheCacheAsThePlainLoop) {
  for (const std::int64_t width : {64, 264, 512, 2052}) {
    const std::int64_t count = (plan_in_use().scatter.large_from + (1 << 20)) / width;
    expect_places({kTableRows, width, 0, 0}, {count, width, 0, 0});
  }
}

TEST(PlaceRows, RefusesIndicesAndPlacesThatNameNoRow) {
  const RowBuffer table({kTableRows, 8, 0, 0}, 1);
  RowBuffer out({3, 8, 0, 0}, 2);
  const auto before = out.bytes();
  const std::vector<std::int64_t> good = {0, 2}, high = {1, 3}, bad = {1, kTableRows};
  EXPECT_THROW(place_rows(table.view(), good.data(), high.data(), 2, out.view(), two_threads), IndexError);
  EXPECT_THROW(place_rows(table.view(), bad.data(), good.data(), 2, out.view(), two_threads), IndexError);
  EXPECT_TRUE(out.bytes() == before);
}

TEST(CheckIndices, FindsEachBadPositionAndTakesTheWholeRange) {
  for (std::int64_t count = 0; count <= 70; ++count) {
    auto index = scattered_index<std::int32_t>(count, 20);
    EXPECT_NO_THROW(check_indices(index.data(), count, 20));
    for (std::int32_t& value : index) {
      const std::int32_t good = std::exchange(value, 20);
      EXPECT_THROW(check_indices(index.data(), count, 20), IndexError) << count;
      EXPECT_THROW(check_indices(index.data(), count, 20, 1, two_threads), IndexError) << count;
      value = good;
    }
  }
}

TEST(CheckIndices, TakesTheLastRowOfTablesPast32Bits) {
  const std::vector<std::int64_t> index = {0, (std::int64_t{1} << 40) - 1};
  EXPECT_NO_THROW(check_indices(index.data(), 2, std::int64_t{1} << 40));
  EXPECT_THROW(check_indices(index.data(), 2, (std::int64_t{1} << 40) - 1), IndexError);
  const std::vector<std::int32_t> narrow = {std::numeric_limits<std::int32_t>::max()};
  EXPECT_NO_THROW(check_indices(narrow.data(), 1, std::int64_t{1} << 40));
}

TEST(CheckIndices, AnEmptyTableHasNoRow) {
  const std::int64_t zero = 0;
  EXPECT_THROW(check_indices(&zero, 1, 0), IndexError);
  EXPECT_NO_THROW(check_indices(&zero, 0, 0));
}

TEST(SmallMovement, StaysOnTheCallersThread) {
  const auto forbidden = [](std::int64_t, std::int64_t, RangeBody) { FAIL() << "a pool for 31 rows"; };
  const auto index = scattered_index<std::int64_t>(31, kTableRows);
  RowBuffer table({kTableRows, 512, 0, 0}, 1);
  RowBuffer out({31, 512, 0, 0}, 2);
  gather_rows(table.view(), index.data(), 31, out.view(), forbidden);
  scatter_rows(out.view(), index.data(), 31, table.view(), forbidden);
  stream_copy(out.view().data, table.view().data, 31 * 512, forbidden);
}

TEST(SmallMovement, OfManyNarrowRowsStaysThereToo) {
  const auto forbidden = [](std::int64_t, std::int64_t, RangeBody) { FAIL() << "a pool for 80 KB"; };
  constexpr std::int64_t kCount = 20'000;
  const auto index = scattered_index<std::int32_t>(kCount, 20'011);
  RowBuffer table({20'011, 4, 0, 0}, 1);
  RowBuffer out({kCount, 4, 0, 0}, 2);
  gather_rows(table.view(), index.data(), kCount, out.view(), forbidden);
  scatter_rows(out.view(), index.data(), kCount, table.view(), forbidden);
}

/// Larger than the cache by its own measure: the public functions then stream.
struct LargeMovement : ::testing::TestWithParam<std::int64_t> {};

TEST_P(LargeMovement, MovesAsThePlainLoop) {
  const std::int64_t width = GetParam();
  const std::int64_t count = (plan_in_use().gather.large_from + (1 << 20)) / width;
  std::vector<std::int64_t> index(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = count - 1 - static_cast<std::int64_t>(i);
  const RowBuffer table({count, width, 0, 0}, 1);
  RowBuffer out({count, width, 0, 0}, 2);
  const auto gathered = plain_gather(table, index, out);
  gather_rows(table.view(), index.data(), count, out.view(), two_threads);
  EXPECT_TRUE(out.bytes() == gathered);
  RowBuffer back({count, width, 0, 0}, 3);
  scatter_rows(out.view(), index.data(), count, back.view(), two_threads);
  EXPECT_TRUE(std::equal(back.view().data, back.view().data + count * width, table.view().data));
}

INSTANTIATE_TEST_SUITE_P(Widths, LargeMovement, ::testing::Values(64, 512, 2052));

void expect_stream_copy(std::int64_t bytes, std::int64_t from_alignment, std::int64_t to_alignment) {
  const RowBuffer from({1, bytes, from_alignment, 0}, 1);
  RowBuffer to({1, bytes, to_alignment, 0}, 2);
  const auto expected = plain_gather(from, std::vector<std::int64_t>{0}, to);
  stream_copy(to.view().data, from.view().data, bytes, two_threads);
  EXPECT_TRUE(to.bytes() == expected) << bytes << " bytes from " << from_alignment << " to " << to_alignment;
}

TEST(StreamCopy, CopiesEverySizeAndAlignment) {
  for (std::int64_t bytes = 0; bytes < 200; ++bytes) expect_stream_copy(bytes, bytes % 64, (bytes * 7) % 64);
  for (const std::int64_t bytes : {4096, 100000, 1 << 20}) expect_stream_copy(bytes, 3, 5);
}

TEST(StreamCopy, CopiesWhatOutgrowsTheCache) {
  const std::int64_t bytes = plan_in_use().gather.large_from + 12345;
  expect_stream_copy(bytes, 0, 0);
  expect_stream_copy(bytes, 17, 41);
}

TEST(StreamCopy, RefusesANegativeSize) {
  EXPECT_THROW(stream_copy(nullptr, nullptr, -1, serial_for), ShapeError);
}

}  // namespace
}  // namespace speedtorch::kernels
