// Which stores and prefetches a movement of these operands gets, by which plan. Nothing is read or written.

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "speedtorch/kernels/error.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"

namespace speedtorch::kernels {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// Addresses that no movement follows.
std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

constexpr std::uintptr_t kAligned = 1 << 20;
constexpr std::int64_t kTableRows = std::int64_t{1} << 40;

struct Operands {
  std::int64_t width;
  bool large;
  std::int64_t gap = 0;
  std::uintptr_t offset = 0;  ///< of the side that is written
  std::int64_t table_rows = kTableRows;

  [[nodiscard]] std::int64_t moved() const {
    const std::int64_t most = (plan_in_use().gather.large_from - 1) / width;
    return large ? most + 1 : most;
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

/// Plans by one processor's choices while it lives.
struct PlanOf : ::testing::Test {
  ~PlanOf() override { use_plan(default_plan()); }
};

/// With 32 MiB of last-level cache, which is half of what makes a movement large.
struct CommonPlan : PlanOf {
  CommonPlan() { use_plan(default_plan(ProcessorFamily::other, 32 * kMiB)); }
};

/// A server of Intel's in a virtual machine: the last-level cache is said to be all of the host's.
struct IntelPlan : PlanOf {
  IntelPlan() { use_plan(default_plan(ProcessorFamily::intel, 480 * kMiB)); }
};

/// Another server of Intel's, whose virtual machine says model 167.
struct Intel167Plan : PlanOf {
  Intel167Plan() { use_plan(default_plan(ProcessorFamily::intel_167, 105 * kMiB)); }
};

/// An AMD EPYC with Zen 3 cores.
struct Zen3Plan : PlanOf {
  Zen3Plan() { use_plan(default_plan(ProcessorFamily::zen3, 32 * kMiB)); }
};

/// An AMD EPYC with Zen 4 cores.
struct Zen4Plan : PlanOf {
  Zen4Plan() { use_plan(default_plan(ProcessorFamily::zen4, 32 * kMiB)); }
};

TEST_F(CommonPlan, WhatFitsTheCacheIsStoredInIt) {
  EXPECT_EQ(plan_in_use().gather.large_from, 16 * kMiB + 1);
  for (const std::int64_t width : {1, 16, 64, 160, 512, 516, 2052, 4096}) {
    EXPECT_EQ((Operands{width, false}.gather().stores), Stores::cached) << width;
    EXPECT_EQ((Operands{width, false}.scatter().stores), Stores::cached) << width;
  }
}

TEST_F(CommonPlan, WholeLinesThatOutgrowItAreStreamed) {
  for (const std::int64_t width : {64, 128, 512, 1152, 4096}) {
    EXPECT_EQ((Operands{width, true}.gather().stores), Stores::streaming) << width;
    EXPECT_EQ((Operands{width, true}.scatter().stores), Stores::streaming) << width;
  }
}

TEST_F(CommonPlan, RowsThatCutLinesAreStreamedFromAWidthOn) {
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

TEST_F(CommonPlan, ATableThatFitsTheCacheIsScatteredToInIt) {
  EXPECT_EQ((Operands{512, true, 0, 0, 1000}.scatter().stores), Stores::cached);
}

TEST_F(CommonPlan, TheLinesAheadAreTheSameForEveryWidth) {
  for (const auto& [width, rows] :
       {std::pair{1, 128}, std::pair{16, 128}, std::pair{64, 128}, std::pair{160, 42}, std::pair{512, 16},
        std::pair{656, 11}, std::pair{1024, 8}, std::pair{4096, 8}}) {
    EXPECT_EQ((Operands{width, false}.gather().prefetch_rows), rows) << width;
    EXPECT_EQ((Operands{width, false}.scatter().prefetch_rows), rows) << width;
  }
}

TEST_F(CommonPlan, WhatIsNotReadIsNotPrefetched) {
  EXPECT_EQ((Operands{512, true}.scatter().prefetch_rows), 0);
  EXPECT_GT((Operands{516, true}.scatter().prefetch_rows), 0) << "its ends are read";
  EXPECT_GT((Operands{512, true}.gather().prefetch_rows), 0);
}

TEST_F(CommonPlan, LargeIsFromHalfOfTheCacheOnAndFrom16MiBAtMost) {
  EXPECT_EQ(default_plan(ProcessorFamily::other, 8 * kMiB).gather.large_from, 4 * kMiB + 1);
  EXPECT_EQ(default_plan(ProcessorFamily::other, 480 * kMiB).scatter.large_from, 16 * kMiB + 1);
}

TEST_F(IntelPlan, LargeRowsAreStreamedWhatTheLastLevelCacheIsSaidToHold) {
  EXPECT_EQ(plan_in_use().gather.large_from, 16 * kMiB);
  for (const std::int64_t width : {64, 128, 512, 1152, 4096}) {
    EXPECT_EQ((Operands{width, true}.gather().stores), Stores::streaming) << width;
    EXPECT_EQ((Operands{width, false}.gather().stores), Stores::cached) << width;
    EXPECT_EQ((Operands{width, true}.scatter().stores), Stores::streaming) << width;
  }
}

TEST_F(IntelPlan, RowsBelow96AndOf512To639BytesThatCutLinesAreStagedWhereTheyHaveNoGaps) {
  for (const std::int64_t width : {160, 264}) {
    EXPECT_EQ((Operands{width, true}.gather().stores), Stores::cached) << width;
  }
  for (const std::int64_t width : {80, 516, 639}) {
    EXPECT_EQ((Operands{width, true}.gather().stores), Stores::staged) << width;
    EXPECT_EQ((Operands{width, true, 4}.gather().stores), Stores::cached) << width << ", with gaps";
    EXPECT_NE((Operands{width, true}.scatter().stores), Stores::staged) << width;
  }
}

TEST_F(IntelPlan, LinesWaitInTheSecondLevelCache) {
  const auto move = Operands{512, true}.gather();
  EXPECT_EQ(move.prefetch_to, PrefetchTo::l2);
  EXPECT_EQ(move.prefetch_rows, 512 / 8);
  EXPECT_EQ(move.touch_rows, 2 * 512 / 8);
  EXPECT_EQ((Operands{16, false}.gather().touch_rows), 2 * 128);
  EXPECT_EQ((Operands{4096, false}.gather().touch_rows), 0) << "wider than pays";
}

TEST_F(IntelPlan, LinesOfWideRowsAreAskedForBetweenTheStoresOfAnEarlierRow) {
  for (const std::int64_t width : {641, 656, 1000, 1152, 1160, 4096, 4100, 1 << 20}) {
    const auto move = Operands{width, true}.gather();
    EXPECT_EQ(move.stores, Stores::streaming);
    EXPECT_EQ(move.line_step, 0);
    EXPECT_EQ(move.prefetch_rows, std::max<std::int64_t>(512 / ((width + 63) / 64), 1)) << width;
    EXPECT_EQ(move.touch_rows, 2 * move.prefetch_rows);
  }
  EXPECT_EQ((Operands{768, true}.gather().line_step), 1) << "whole lines have copies without a loop";
  EXPECT_EQ((Operands{516, true}.gather().line_step), 1);
}

TEST_F(Intel167Plan, LinesOfGathersAreAskedForShortlyBeforeTheirUse) {
  constexpr auto cached = Stores::cached, staged = Stores::staged, streaming = Stores::streaming;
  constexpr auto l1 = PrefetchTo::l1, l2 = PrefetchTo::l2;
  for (const auto& [width, large, stores, to, rows, touch, step] :
       {std::tuple{16, false, cached, l1, 32, 64, 1}, std::tuple{512, false, cached, l1, 4, 8, 1},
        std::tuple{4096, false, cached, l1, 2, 4, 1}, std::tuple{16, true, staged, l1, 32, 64, 1},
        std::tuple{95, true, cached, l1, 16, 0, 1}, std::tuple{160, true, staged, l1, 21, 0, 1},
        std::tuple{264, true, staged, l1, 12, 0, 1}, std::tuple{516, true, staged, l1, 3, 12, 1},
        std::tuple{656, true, streaming, l2, 5, 10, 0}, std::tuple{1160, true, streaming, l2, 3, 6, 0},
        std::tuple{64, true, streaming, l1, 32, 64, 1}, std::tuple{448, true, streaming, l1, 4, 8, 1},
        std::tuple{512, true, streaming, l2, 8, 16, 1}, std::tuple{4096, true, streaming, l2, 4, 8, 1}}) {
    const auto move = Operands{width, large}.gather();
    const auto what = std::to_string(width) + (large ? " large" : " small");
    EXPECT_EQ(move.stores, stores) << what;
    EXPECT_EQ(move.prefetch_to, to) << what;
    EXPECT_EQ(move.prefetch_rows, rows) << what;
    EXPECT_EQ(move.touch_rows, touch) << what;
    EXPECT_EQ(move.line_step, step) << what;
  }
  EXPECT_EQ((Operands{656, true, 4}.gather().stores), streaming) << "with gaps, too";
}

TEST_F(Intel167Plan, ScattersAndWhatIsLargeAreThoseOfOtherXeons) {
  const auto other = default_plan(ProcessorFamily::intel, 105 * kMiB);
  EXPECT_EQ(plan_in_use().scatter, other.scatter);
  EXPECT_EQ(plan_in_use().gather.large_from, other.gather.large_from);
  EXPECT_EQ(plan_in_use().copy_huge_pages, CopyWay::pages);
  EXPECT_EQ(plan_in_use().copy_small_pages, other.copy_small_pages);
}

TEST_F(Zen3Plan, LargeGathersOfTheWidestRowsAskForTheirLinesBetweenTheStores) {
  for (const auto& [width, stores, step] :
       {std::tuple{1023, Stores::cached, 1}, std::tuple{1028, Stores::streaming, 0},
        std::tuple{960, Stores::streaming, 1}, std::tuple{1024, Stores::streaming, 0},
        std::tuple{4100, Stores::streaming, 0}}) {
    const auto move = Operands{width, true}.gather();
    EXPECT_EQ(move.stores, stores) << width;
    EXPECT_EQ(move.line_step, step) << width;
    EXPECT_EQ(move.prefetch_to, PrefetchTo::l1) << width;
    EXPECT_EQ(move.touch_rows, step == 0 ? 2 * move.prefetch_rows : 0) << width;
    EXPECT_EQ((Operands{width, true}.scatter().line_step), 1) << width;
    EXPECT_EQ((Operands{width, false}.gather().stores), Stores::cached) << width;
    EXPECT_EQ((Operands{width, false}.gather().line_step), 1) << width;
  }
}

TEST_F(Zen4Plan, LinesOfWideRowsOfGathersWaitInTheSecondLevelCache) {
  for (const auto& [width, large, to] :
       {std::tuple{128, true, PrefetchTo::l1}, std::tuple{192, true, PrefetchTo::l2},
        std::tuple{80, true, PrefetchTo::l1}, std::tuple{160, true, PrefetchTo::l2},
        std::tuple{4096, true, PrefetchTo::l2}, std::tuple{768, false, PrefetchTo::l1},
        std::tuple{1024, false, PrefetchTo::l2}}) {
    EXPECT_EQ((Operands{width, large}.gather().prefetch_to), to) << width;
    EXPECT_EQ((Operands{width, large}.scatter().prefetch_to), PrefetchTo::l1) << width;
  }
  EXPECT_EQ((Operands{512, true}.gather().prefetch_rows), 512 / 8);
}

TEST_F(Zen4Plan, WideRowsAreStreamedAndTheWidestAskForTheirLinesBetweenTheStores) {
  for (const auto& [width, stores, step] :
       {std::tuple{160, Stores::cached, 1}, std::tuple{264, Stores::cached, 1},
        std::tuple{516, Stores::streaming, 1}, std::tuple{656, Stores::streaming, 0},
        std::tuple{768, Stores::streaming, 1}, std::tuple{1152, Stores::streaming, 0}}) {
    const auto move = Operands{width, true}.gather();
    EXPECT_EQ(move.stores, stores) << width;
    EXPECT_EQ(move.line_step, step) << width;
    EXPECT_EQ(move.touch_rows, width == 264 ? 0 : 2 * move.prefetch_rows) << width;
  }
}

TEST(Plan, ClassesBeginWithTheirWidth) {
  EXPECT_EQ(width_class(1), 0U);
  for (std::size_t k = 1; k < kWidthClasses.size(); ++k) {
    EXPECT_EQ(width_class(kWidthClasses[k]), k);
    EXPECT_EQ(width_class(kWidthClasses[k] - 1), k - 1);
  }
  EXPECT_EQ(width_class(std::int64_t{1} << 40), kWidthClasses.size() - 1);
}

TEST_F(PlanOf, EachChoiceReachesTheMovementsOfItsOwnClass) {
  auto plan = default_plan();
  plan.gather.large_from = plan.scatter.large_from = kMiB;
  std::int32_t number = 1;
  for (auto* direction : {&plan.gather, &plan.scatter}) {
    for (auto* choices : {&direction->small, &direction->whole_lines, &direction->cut_lines}) {
      for (auto& choice : *choices) choice = {Stores::cached, PrefetchTo::l2, number++, 1};
    }
  }
  use_plan(plan);
  const auto expect = [](const RowMove<std::int64_t>& move, const RowChoice& choice) {
    EXPECT_EQ(move.prefetch_to, PrefetchTo::l2);
    EXPECT_EQ(move.line_step, 1);
    const auto lines = std::min<std::int64_t>((move.row_bytes + 63) / 64, 16);
    EXPECT_EQ(move.prefetch_rows, std::max<std::int64_t>(1, choice.lines_ahead / lines)) << move.row_bytes;
  };
  for (std::size_t k = 0; k < kWidthClasses.size(); ++k) {
    const auto cut = kWidthClasses[k] + 1;
    expect(Operands{cut, false}.gather(), plan.gather.small[k]);
    expect(Operands{cut, true}.gather(), plan.gather.cut_lines[k]);
    expect(Operands{cut, true}.scatter(), plan.scatter.cut_lines[k]);
  }
  expect(Operands{128, true}.gather(), plan.gather.whole_lines[2]);
  expect(Operands{128, true}.scatter(), plan.scatter.whole_lines[2]);
  expect(Operands{128, false}.scatter(), plan.scatter.small[2]);
}

TEST_F(PlanOf, StepsOfLongRowsAskForFewerLines) {
  auto plan = default_plan();
  plan.gather.whole_lines.back() = {Stores::streaming, PrefetchTo::l1, 128, 4};
  use_plan(plan);
  EXPECT_EQ((Operands{4096, true}.gather().prefetch_rows), 128 / 16);
  EXPECT_EQ((Operands{2048, true}.gather().prefetch_rows), 128 / 8);
}

TEST_F(PlanOf, TheFirstLineIsTouchedSoManyTimesAsFarAhead) {
  auto plan = default_plan();
  plan.gather.whole_lines.back() = {Stores::streaming, PrefetchTo::l2, 128, 1, 3};
  plan.scatter.whole_lines.back() = {Stores::streaming, PrefetchTo::l2, 128, 1, 3};
  plan.scatter.small.back() = {Stores::cached, PrefetchTo::l2, 128, 1, 1};
  use_plan(plan);
  EXPECT_EQ((Operands{4096, true}.gather().touch_rows), 3 * 8);
  EXPECT_EQ((Operands{4096, true}.scatter().touch_rows), 0) << "what is not read is not touched";
  EXPECT_EQ((Operands{4096, false}.scatter().touch_rows), 0) << "asked for with the rest";
}

TEST_F(PlanOf, FaultsAreRefused) {
  const auto expect_refused = [](auto change) {
    auto plan = default_plan();
    change(plan);
    const auto before = plan_in_use();
    EXPECT_THROW(use_plan(plan), RowPlanError);
    EXPECT_EQ(plan_in_use(), before);
  };
  expect_refused([](Plan& plan) { plan.thread_bytes = 0; });
  expect_refused([](Plan& plan) { plan.scatter.large_from = -1; });
  expect_refused([](Plan& plan) { plan.gather.small[3].stores = Stores::streaming; });
  expect_refused([](Plan& plan) { plan.scatter.cut_lines[0].stores = Stores::staged; });
  expect_refused([](Plan& plan) { plan.gather.whole_lines[1].lines_ahead = 0; });
  expect_refused([](Plan& plan) { plan.gather.whole_lines[1].lines_ahead = kMostLinesAhead + 1; });
  expect_refused([](Plan& plan) { plan.gather.cut_lines[6].line_step = 17; });
  expect_refused([](Plan& plan) { plan.gather.cut_lines[6].touch = kMostTouch + 1; });
}

}  // namespace
}  // namespace speedtorch::kernels
