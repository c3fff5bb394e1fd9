// The CUDA kernels' plan: the tables of speedtorch/kernels/cuda/plan.h, case by case.

#include "speedtorch/kernels/cuda/plan.h"

#include <gtest/gtest.h>

namespace speedtorch::kernels {
namespace {

struct Where {
  std::uintptr_t from = 0;
  std::uintptr_t to = 0;
  std::int64_t gap = 0;  ///< between the rows of the source
  Link link = Link::none;
};

LanePlan plan_for(std::int64_t row_bytes, const Where& where = {}) {
  return plan_lanes({reinterpret_cast<const std::byte*>(where.from), 9, row_bytes, row_bytes + where.gap},
                    {reinterpret_cast<const std::byte*>(where.to), 9, row_bytes, row_bytes}, where.link);
}

int steps(const LanePlan& plan) { return plan.item_bytes / (plan.lanes() * plan.width()); }

TEST(PlanLanes, TakesTheWidestAccessThatEverythingAllows) {
  EXPECT_EQ(plan_for(512).width(), 16);
  EXPECT_EQ(plan_for(516).width(), 4);
  EXPECT_EQ(plan_for(514).width(), 2);
  EXPECT_EQ(plan_for(129).width(), 1);
  EXPECT_EQ(plan_for(512, {.from = 8}).width(), 8);
  EXPECT_EQ(plan_for(512, {.to = 4}).width(), 4);
  EXPECT_EQ(plan_for(512, {.gap = 2}).width(), 2);
  EXPECT_EQ(plan_for(512, {.from = 48, .to = 160, .gap = 64}).width(), 16);
}

TEST(PlanLanes, GivesARowOfOneAccessOneThread) {
  for (const std::int64_t row_bytes : {1, 2, 4, 8, 16}) {
    EXPECT_EQ(plan_for(row_bytes).lanes(), 1) << row_bytes;
    EXPECT_EQ(steps(plan_for(row_bytes)), 1) << row_bytes;
  }
}

TEST(PlanLanes, GivesAWarpSeveralShortRows) {
  EXPECT_EQ(plan_for(32).rows_per_warp(), 16);
  EXPECT_EQ(plan_for(64).rows_per_warp(), 8);
  EXPECT_EQ(plan_for(80).lanes(), 8);
  EXPECT_EQ(plan_for(128).rows_per_warp(), 4);
  EXPECT_EQ(plan_for(256).rows_per_warp(), 2);
  EXPECT_EQ(plan_for(512).rows_per_warp(), 1);
}

/// A regression: every row ran the 8 steps of a 4 KiB row.
TEST(PlanLanes, RowsTakeAsManyStepsAsTheyNeed) {
  EXPECT_EQ(steps(plan_for(64)), 1);
  EXPECT_EQ(steps(plan_for(512)), 1);
  EXPECT_EQ(steps(plan_for(516)), 5);
  EXPECT_EQ(steps(plan_for(1024)), 2);
  EXPECT_EQ(steps(plan_for(1152)), 3);
  EXPECT_EQ(steps(plan_for(4096)), 8);
}

TEST(PlanLanes, CutsLongRowsInEqualItems) {
  EXPECT_EQ(plan_for(4096).row_items, 1);
  EXPECT_EQ(plan_for(4112).row_items, 2);
  EXPECT_EQ(steps(plan_for(4112)), 5) << "not 8 and then 1";
  EXPECT_EQ(plan_for(6144).item_bytes, 3072);
  EXPECT_EQ(plan_for(65536).row_items, 16);
  EXPECT_EQ(plan_for(65536).item_bytes, 4096);
  EXPECT_EQ(plan_for(65536 + 16).row_items, 17);
  for (std::int64_t row_bytes = 1; row_bytes < 40000; row_bytes += 37) {
    const auto plan = plan_for(row_bytes);
    EXPECT_LE(steps(plan), kSteps) << row_bytes;
    EXPECT_GE(plan.row_items * plan.item_bytes, row_bytes);
    EXPECT_LT((plan.row_items - 1) * plan.item_bytes, row_bytes) << "an item with nothing to do";
  }
}

TEST(PlanLanes, StartsAtTheLineWhereALinkedRowTakesSeveralSteps) {
  EXPECT_EQ(plan_for(516, {.link = Link::from}).shift, Link::from);
  EXPECT_EQ(plan_for(516, {.link = Link::to}).shift, Link::to);
  EXPECT_EQ(plan_for(1024, {.from = 64, .link = Link::from}).shift, Link::from);
  EXPECT_EQ(plan_for(516).shift, Link::none) << "device memory has no requests to save";
  EXPECT_EQ(plan_for(128, {.link = Link::from}).shift, Link::none) << "one instruction";
  EXPECT_EQ(plan_for(512, {.from = 64, .link = Link::from}).shift, Link::none) << "one instruction";
}

TEST(PlanLanes, AddsAStepForTheShiftOnlyWhereRowsCanLieAskew) {
  EXPECT_EQ(steps(plan_for(1024, {.link = Link::from})), 2);
  EXPECT_EQ(steps(plan_for(1024, {.from = 64, .link = Link::from})), 3);
  EXPECT_EQ(steps(plan_for(1024, {.gap = 64, .link = Link::from})), 3);
}

TEST(PlanLanes, ReadsTheLinkByWordsWhereTheOtherSideTakesBytes) {
  const auto gather = plan_for(353, {.link = Link::from});
  EXPECT_EQ(gather.from_width, 4);
  EXPECT_EQ(gather.to_width, 1);
  const auto scatter = plan_for(514, {.link = Link::to});
  EXPECT_EQ(scatter.from_width, 2);
  EXPECT_EQ(scatter.to_width, 4);
  EXPECT_EQ(plan_for(353).from_width, 1);
  EXPECT_EQ(plan_for(516, {.link = Link::from}).to_width, 4);
  EXPECT_EQ(plan_for(31, {.link = Link::from}).from_width, 1) << "one instruction";
}

TEST(PlanLanes, GivesTheCachesHints) {
  EXPECT_EQ(plan_for(64).access, Access::sectors);
  EXPECT_EQ(plan_for(128).access, Access::lines);
  EXPECT_EQ(plan_for(64, {.link = Link::from}).access, Access::link_read);
  EXPECT_EQ(plan_for(4096, {.link = Link::to}).access, Access::link_write);
}

TEST(LargestShift, IsTheSameForEveryRowOnlyWhereTheStrideIsWholeLines) {
  const auto rows = [](std::uintptr_t data, std::int64_t stride) {
    return ConstRows{reinterpret_cast<const std::byte*>(data), 9, 4, stride};
  };
  EXPECT_EQ(largest_shift(rows(0, 512)), 0);
  EXPECT_EQ(largest_shift(rows(48, 256)), 48);
  EXPECT_EQ(largest_shift(rows(0, 64)), 64);
  EXPECT_EQ(largest_shift(rows(0, 516)), 124);
  EXPECT_EQ(largest_shift(rows(16, 160)), 112);
  EXPECT_EQ(largest_shift(rows(0, 353)), 127);
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
