// Which stores and prefetch distance a movement of these operands gets. Nothing is read or written.

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "speedtorch/kernels/cache_size.h"
#include "speedtorch/kernels/rows/row_moves.h"

namespace speedtorch::kernels {
namespace {

/// Addresses that no movement follows.
std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

constexpr std::uintptr_t kAligned = 1 << 20;
constexpr std::int64_t kTableRows = std::int64_t{1} << 40;

struct Operands {
  std::int64_t width;
  bool large;  ///< more than half of the last-level cache is written
  std::int64_t gap = 0;
  std::uintptr_t offset = 0;  ///< of the side that is written
  std::int64_t table_rows = kTableRows;

  [[nodiscard]] std::int64_t moved() const {
    const std::int64_t half = last_level_cache_bytes() / 2;
    return large ? half / width + 1 : half / width;
  }
  [[nodiscard]] RowMove<std::int64_t> gather() const {
    return plan_gather<std::int64_t>({at(kAligned), table_rows, width, width + gap}, nullptr,
                                     {at(kAligned + offset), moved(), width, width + gap});
  }
  [[nodiscard]] RowMove<std::int64_t> scatter() const {
    return plan_scatter<std::int64_t>({at(kAligned), moved(), width, width + gap}, nullptr,
                                      {at(kAligned + offset), table_rows, width, width + gap});
  }
};

TEST(RowPlan, WhatFitsTheCacheIsStoredInIt) {
  for (const std::int64_t width : {1, 16, 64, 160, 512, 516, 2052, 4096}) {
    EXPECT_EQ((Operands{width, false}.gather().stores), Stores::cached) << width;
    EXPECT_EQ((Operands{width, false}.scatter().stores), Stores::cached) << width;
  }
}

TEST(RowPlan, WholeLinesThatOutgrowItAreStreamed) {
  for (const std::int64_t width : {64, 128, 512, 1152, 4096}) {
    EXPECT_EQ((Operands{width, true}.gather().stores), Stores::streaming) << width;
    EXPECT_EQ((Operands{width, true}.scatter().stores), Stores::streaming) << width;
  }
}

TEST(RowPlan, RowsThatCutLinesAreStreamedFromAWidthOn) {
  for (const auto& [width, gather, scatter] :
       {std::tuple{16, Stores::cached, Stores::cached}, std::tuple{160, Stores::cached, Stores::cached},
        std::tuple{516, Stores::cached, Stores::streaming},
        std::tuple{2052, Stores::streaming, Stores::streaming}}) {
    EXPECT_EQ((Operands{width, true}.gather().stores), gather) << width;
    EXPECT_EQ((Operands{width, true}.scatter().stores), scatter) << width;
  }
  EXPECT_EQ((Operands{256, true, 0, 16}.scatter().stores), Stores::cached)
      << "whole lines in width, not in place";
  EXPECT_EQ((Operands{256, true, 16}.scatter().stores), Stores::cached) << "nor in their distance";
}

TEST(RowPlan, ATableThatFitsTheCacheIsScatteredToInIt) {
  EXPECT_EQ((Operands{512, true, 0, 0, 1000}.scatter().stores), Stores::cached);
}

TEST(RowPlan, TheLinesAheadAreTheSameForEveryWidth) {
  for (const auto& [width, rows] :
       {std::pair{1, 128}, std::pair{16, 128}, std::pair{64, 128}, std::pair{160, 42}, std::pair{512, 16},
        std::pair{656, 11}, std::pair{1024, 8}, std::pair{4096, 8}}) {
    EXPECT_EQ((Operands{width, false}.gather().prefetch_rows), rows) << width;
    EXPECT_EQ((Operands{width, false}.scatter().prefetch_rows), rows) << width;
  }
}

TEST(RowPlan, WhatIsNotReadIsNotPrefetched) {
  EXPECT_EQ((Operands{512, true}.scatter().prefetch_rows), 0);
  EXPECT_GT((Operands{516, true}.scatter().prefetch_rows), 0) << "its ends are read";
  EXPECT_GT((Operands{512, true}.gather().prefetch_rows), 0);
}

}  // namespace
}  // namespace speedtorch::kernels
