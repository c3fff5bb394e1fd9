// A deduplicated gather, step by step on the host in the device's order.

#include "speedtorch/kernels/cuda/runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "tests/speedtorch/kernels/counting_memory.h"

namespace speedtorch::kernels {
namespace {

/// Runs that own their arrays, built from an index as CUB and the kernels do.
struct HostRuns {
  explicit HostRuns(const std::vector<std::int64_t>& index)
      : sorted(index),
        unique(index.size(), -99),
        positions(index.size()),
        numbers(index.size()),
        place_of(index.size(), -99) {
    std::iota(positions.begin(), positions.end(), 0);
    std::stable_sort(positions.begin(), positions.end(), [&](std::int32_t a, std::int32_t b) {
      return index[static_cast<std::size_t>(a)] < index[static_cast<std::size_t>(b)];
    });
    std::sort(sorted.begin(), sorted.end());
  }

  void find(std::int64_t rows, IndexErrors* errors) {
    const RowBuffer nothing({1, 1, 0, 0}, 1);
    CountingMemory memory(nothing, nothing);
    const auto count = static_cast<std::int64_t>(sorted.size());
    const Runs<std::int64_t> runs{sorted.data(), positions.data(), numbers.data(),
                                  unique.data(), place_of.data(),  &unique_count};
    for (std::int64_t i = 0; i < count; ++i) mark_run(runs, i);
    std::partial_sum(numbers.begin(), numbers.end(), numbers.begin());
    for (std::int64_t i = 0; i < count; ++i) place_run(runs, i, count, rows, errors, memory);
  }

  std::vector<std::int64_t> sorted, unique;
  std::vector<std::int32_t> positions, numbers, place_of;
  std::int64_t unique_count = -1;
};

constexpr std::int64_t kRows = 23;

const std::vector<std::int64_t>& repeating_index() {
  static const std::vector<std::int64_t> index{7, 3, 7, 7, 22, 0, 3, 22, 1, 0, 7, -5, 23, -5, 9, 9, 7};
  return index;
}

TEST(CudaRuns, EachRowIsNamedOnceAndFoundFromEachIndex) {
  const auto& index = repeating_index();
  HostRuns runs(index);
  runs.find(kRows, nullptr);
  const std::set<std::int64_t> distinct(index.begin(), index.end());
  ASSERT_EQ(runs.unique_count, static_cast<std::int64_t>(distinct.size()));
  EXPECT_EQ(std::set<std::int64_t>(runs.unique.begin(), runs.unique.begin() + runs.unique_count), distinct);
  for (std::size_t i = 0; i < index.size(); ++i)
    EXPECT_EQ(runs.unique[static_cast<std::size_t>(runs.place_of[i])], index[i]) << i;
}

TEST(CudaRuns, BadIndicesAreCountedAtTheirPositions) {
  HostRuns runs(repeating_index());
  IndexErrors errors;
  runs.find(kRows, &errors);
  EXPECT_EQ(errors.count, 3u);
  EXPECT_EQ(errors.first_position, 11u);
  EXPECT_EQ(errors.seen_rows, kRows);
}

TEST(CudaRuns, OneRunAndOneIndex) {
  HostRuns same(std::vector<std::int64_t>(100, 4));
  same.find(kRows, nullptr);
  EXPECT_EQ(same.unique_count, 1);
  EXPECT_EQ(same.place_of, std::vector<std::int32_t>(100, 0));
  HostRuns one({5});
  one.find(kRows, nullptr);
  EXPECT_EQ(one.unique_count, 1);
  EXPECT_EQ(one.unique[0], 5);
}

/// The whole gather: reads each row once from the table and then copies it to all its positions.
TEST(CudaRuns, TheTwoMovementsGiveThePlainGatherAndReadEachRowOnce) {
  const auto& index = repeating_index();
  const auto count = static_cast<std::int64_t>(index.size());
  HostRuns runs(index);
  runs.find(kRows, nullptr);
  for (const std::int64_t width : {4, 31, 353, 5000}) {
    const RowBuffer table({kRows, width, 0, 0}, 1);
    RowBuffer rows({count, width, 0, 16 - width % 16}, 2);
    RowBuffer out({count, width, 3, 0}, 3);
    auto harmless = index;
    for (auto& row : harmless) row = row < 0 || row >= kRows ? 0 : row;
    auto expected = plain_gather(table, harmless, out);
    for (const std::int64_t bad : {11, 12, 13})
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(out.place(bad)), width, std::byte{0xFF});

    CountingMemory first(table, rows);
    LaneMove<std::int64_t> once{table.view(),       rows.view(),
                                runs.unique.data(), count,
                                Direction::gather,  plan_lanes(table.view(), rows.view(), Link::from)};
    once.count_on_device = &runs.unique_count;
    run_threads(once, 64, first);
    EXPECT_TRUE(first.loads() == once_each(table, std::vector<std::int64_t>{0, 1, 3, 7, 9, 22})) << width;

    CountingMemory second(rows, out);
    const LaneMove<std::int32_t> copy{rows.view(),          out.view(),
                                      runs.place_of.data(), count,
                                      Direction::gather,    plan_lanes(rows.view(), out.view(), Link::none)};
    run_threads(copy, 64, second);
    EXPECT_TRUE(out.bytes() == expected) << width;
  }
}

}  // namespace
}  // namespace speedtorch::kernels
