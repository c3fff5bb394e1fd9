// The CUDA kernels' arithmetic, every thread of it run here: each byte is moved exactly once, by an aligned
// access.

#include "kernels/cuda_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/row_buffer.h"

namespace speedtorch::kernels {
namespace {

/// Moves like the device does and counts the stores of each byte of one buffer.
class CountingMemory {
 public:
  explicit CountingMemory(const RowBuffer& to) : to_(to), stores_(to.bytes().size()) {}

  template <class Word>
  Word load(const std::byte* from) {
    expect_aligned(from, sizeof(Word));
    Word word;
    std::memcpy(&word, from, sizeof(Word));
    return word;
  }

  template <class Word>
  void store(std::byte* to, Word word) {
    expect_aligned(to, sizeof(Word));
    const auto place = static_cast<std::size_t>(to - to_.bytes().data());
    ASSERT_LE(place + sizeof(Word), stores_.size());
    for (std::size_t i = 0; i < sizeof(Word); ++i) ++stores_[place + i];
    std::memcpy(to, &word, sizeof(Word));
  }

  void bad_index(IndexErrors* errors, std::int64_t position) {
    errors->count += 1;
    errors->first_position = std::min(errors->first_position, static_cast<unsigned long long>(position));
  }

  /// How often each byte of the buffer was written, margins and gaps included.
  const std::vector<int>& stores() const { return stores_; }

 private:
  static void expect_aligned(const std::byte* at, std::size_t width) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % width, 0u);
  }

  const RowBuffer& to_;
  std::vector<int> stores_;
};

template <class Call>
void with_word(int width, Call call) {
  switch (width) {
    case 1:
      return call(std::uint8_t{});
    case 2:
      return call(std::uint16_t{});
    case 4:
      return call(std::uint32_t{});
    case 8:
      return call(std::uint64_t{});
    case 16:
      return call(Word16{});
    default:
      FAIL() << "no access of " << width << " bytes";
  }
}

template <class Index>
void run_threads(const LaneMove<Index>& move, std::int64_t threads, CountingMemory& memory) {
  with_word(move.plan.width, [&](auto word) {
    for (std::int64_t thread = 0; thread < threads; ++thread) {
      move_lane<decltype(word)>(move, thread, threads, memory);
    }
  });
}

/// One store for each byte of the named rows, none anywhere else.
template <class Index>
std::vector<int> once_each(const RowBuffer& to, const std::vector<Index>& rows) {
  std::vector<int> stores(to.bytes().size());
  for (const Index row : rows) {
    const auto first = stores.begin() + static_cast<std::ptrdiff_t>(to.place(row));
    std::for_each(first, first + to.row_bytes(), [](int& count) { ++count; });
  }
  return stores;
}

template <class Index>
void expect_gather(const Layout& from, const Layout& to, std::int64_t threads) {
  const RowBuffer table(from, 1);
  RowBuffer out(to, 2);
  const auto index = scattered_index<Index>(to.rows, from.rows);
  const auto expected = plain_gather(table, index, out);
  CountingMemory memory(out);
  run_threads<Index>({table.view(), out.view(), index.data(), to.rows, Direction::gather,
                      plan_lanes(table.view(), out.view()), nullptr},
                     threads, memory);
  std::vector<std::int64_t> all(static_cast<std::size_t>(to.rows));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  EXPECT_TRUE(memory.stores() == once_each(out, all))
      << from.row_bytes << " bytes, " << threads << " threads";
  EXPECT_TRUE(out.bytes() == expected) << from.row_bytes << " bytes, " << threads << " threads";
}

template <class Index>
void expect_scatter(const Layout& from, const Layout& to, std::int64_t threads) {
  const RowBuffer values(from, 3);
  RowBuffer table(to, 4);
  const auto index = scattered_index<Index>(from.rows, to.rows);
  const auto expected = plain_scatter(values, index, table);
  CountingMemory memory(table);
  run_threads<Index>({values.view(), table.view(), index.data(), from.rows, Direction::scatter,
                      plan_lanes(values.view(), table.view()), nullptr},
                     threads, memory);
  EXPECT_TRUE(memory.stores() == once_each(table, index))
      << from.row_bytes << " bytes, " << threads << " threads";
  EXPECT_TRUE(table.bytes() == expected) << from.row_bytes << " bytes, " << threads << " threads";
}

template <class Index>
class CudaPlan : public ::testing::Test {};
using Indices = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CudaPlan, Indices);

constexpr std::int64_t kRows = 23;  // prime, so scattered_index repeats none
constexpr std::int64_t kCount = 11;

TYPED_TEST(CudaPlan, EveryWidthMovesEachByteOnce) {
  std::vector<std::int64_t> widths = {511, 512, 516, 1000, 1024, 4096, 4100, 8208, 20000};
  for (std::int64_t width = 1; width <= 300; ++width) widths.push_back(width);
  for (const std::int64_t width : widths) {
    const std::int64_t gap = width % 3 == 0 ? 0 : width % 16;
    expect_gather<TypeParam>({kRows, width, 0, gap}, {kCount, width, 0, 0}, 128);
    expect_scatter<TypeParam>({kCount, width, 0, 0}, {kRows, width, 0, gap}, 128);
  }
}

TYPED_TEST(CudaPlan, EveryAlignmentMovesEachByteOnce) {
  for (const std::int64_t width : {1, 6, 48, 64, 516}) {
    for (const std::int64_t from : {0, 1, 2, 4, 8, 12, 16, 17}) {
      for (const std::int64_t to : {0, 1, 2, 4, 8, 24}) {
        expect_gather<TypeParam>({kRows, width, from, 0}, {kCount, width, to, 4}, 96);
        expect_scatter<TypeParam>({kCount, width, from, 4}, {kRows, width, to, 0}, 96);
      }
    }
  }
}

TYPED_TEST(CudaPlan, AnyGridMovesEachByteOnce) {
  for (const std::int64_t threads : {32, 64, 256, 1024, 8192}) {
    for (const std::int64_t width : {4, 16, 64, 512, 516, 4100}) {
      for (const std::int64_t count : {1, 5, 97}) {
        expect_gather<TypeParam>({101, width, 0, 0}, {count, width, 0, 0}, threads);
        expect_scatter<TypeParam>({count, width, 0, 0}, {101, width, 0, 0}, threads);
      }
    }
  }
}

/// Indices of which positions 2, 5 and 7 name no row.
template <class Index>
std::vector<Index> bad_index_at_2_5_7() {
  auto index = scattered_index<Index>(kCount, kRows);
  index[2] = -1;
  index[5] = static_cast<Index>(kRows);
  index[7] = std::numeric_limits<Index>::min();
  return index;
}

TYPED_TEST(CudaPlan, GatherPoisonsTheRowsOfBadIndices) {
  for (const std::int64_t width : {3, 16, 516, 9000}) {
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
    CountingMemory memory(out);
    run_threads<TypeParam>({table.view(), out.view(), bad.data(), kCount, Direction::gather,
                            plan_lanes(table.view(), out.view()), &errors},
                           64, memory);
    EXPECT_TRUE(out.bytes() == expected) << width;
    EXPECT_EQ(errors.count, 3u);
    EXPECT_EQ(errors.first_position, 2u);
  }
}

TYPED_TEST(CudaPlan, ScatterLeavesOutTheRowsOfBadIndices) {
  for (const std::int64_t width : {3, 16, 516, 9000}) {
    const RowBuffer values({kCount, width, 0, 0}, 1);
    RowBuffer table({kRows, width, 0, 0}, 2);
    const auto bad = bad_index_at_2_5_7<TypeParam>();
    std::vector<std::int64_t> good_positions;
    for (std::int64_t i = 0; i < kCount; ++i) {
      if (i != 2 && i != 5 && i != 7) good_positions.push_back(i);
    }
    const auto expected = moved(
        values, table, good_positions.size(), [&](std::size_t i) { return good_positions[i]; },
        [&](std::size_t i) { return bad[static_cast<std::size_t>(good_positions[i])]; });
    IndexErrors errors;
    CountingMemory memory(table);
    run_threads<TypeParam>({values.view(), table.view(), bad.data(), kCount, Direction::scatter,
                            plan_lanes(values.view(), table.view()), &errors},
                           64, memory);
    EXPECT_TRUE(table.bytes() == expected) << width;
    EXPECT_EQ(errors.count, 3u);
    EXPECT_EQ(errors.first_position, 2u);
  }
}

LanePlan plan_for(std::int64_t row_bytes, std::uintptr_t from = 0, std::uintptr_t to = 0,
                  std::int64_t gap = 0) {
  return plan_lanes({reinterpret_cast<const std::byte*>(from), 1, row_bytes, row_bytes + gap},
                    {reinterpret_cast<const std::byte*>(to), 1, row_bytes, row_bytes});
}

TEST(PlanLanes, TakesTheWidestAccessThatEverythingAllows) {
  EXPECT_EQ(plan_for(512).width, 16);
  EXPECT_EQ(plan_for(516).width, 4);
  EXPECT_EQ(plan_for(514).width, 2);
  EXPECT_EQ(plan_for(129).width, 1);
  EXPECT_EQ(plan_for(512, 8).width, 8);
  EXPECT_EQ(plan_for(512, 0, 4).width, 4);
  EXPECT_EQ(plan_for(512, 0, 0, 2).width, 2);
  EXPECT_EQ(plan_for(512, 48, 160, 64).width, 16);
}

TEST(PlanLanes, GivesAWarpSeveralShortRowsAndLongRowsSeveralItems) {
  EXPECT_EQ(plan_for(4).lanes, 1);
  EXPECT_EQ(plan_for(64).lanes, 4);
  EXPECT_EQ(plan_for(64).rows_per_warp(), 8);
  EXPECT_EQ(plan_for(80).lanes, 8);
  EXPECT_EQ(plan_for(512).rows_per_warp(), 1);
  EXPECT_EQ(plan_for(4096).row_items, 1);
  EXPECT_EQ(plan_for(65536).row_items, 16);
  EXPECT_EQ(plan_for(65536 + 16).row_items, 17);
}

TEST(CopyPlan, EverySizeAlignmentAndGridCopiesEachByteOnce) {
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
        CountingMemory memory(to);
        with_word(plan.width, [&](auto word) {
          for (std::int64_t thread = 0; thread < threads; ++thread) {
            copy_lane<decltype(word)>(to.view().data, from.view().data, plan, thread, threads, memory);
          }
        });
        EXPECT_TRUE(memory.stores() == once_each(to, std::vector<std::int64_t>{0})) << bytes;
        EXPECT_TRUE(to.bytes() == expected) << bytes;
      }
    }
  }
}

TEST(CopyPlan, UsesWideWordsWhereBothSidesAreShiftedAlike) {
  const CopyPlan plan =
      plan_copy(reinterpret_cast<std::byte*>(3), reinterpret_cast<const std::byte*>(19), 100);
  EXPECT_EQ(plan.width, 16);
  EXPECT_EQ(plan.head, 13);
  EXPECT_EQ(plan.words, 5);
  EXPECT_EQ(plan.tail, 7);
}

}  // namespace
}  // namespace speedtorch::kernels
