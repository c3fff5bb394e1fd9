// Blocks and threads of a launch, from a device's properties and the caller's budget.

#include "speedtorch/kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include <limits>

namespace speedtorch::kernels {
namespace {

constexpr DeviceShape kDevice{.sms = 132, .blocks_per_sm = 4};

TEST(PlanLaunch, SpreadsSmallBatchesAndFillsTheDeviceWithLargeOnes) {
  EXPECT_EQ(plan_launch(1, 1, kDevice, 0), (LaunchShape{1, 1, 256}));
  EXPECT_EQ(plan_launch(256, 1, kDevice, 0), (LaunchShape{1, 1, 256}));
  EXPECT_EQ(plan_launch(257, 1, kDevice, 0), (LaunchShape{2, 1, 256}));
  EXPECT_EQ(plan_launch(131'072 * 32, 1, kDevice, 0), (LaunchShape{528, 1, 256}));
  EXPECT_EQ(plan_launch(std::numeric_limits<std::int64_t>::max(), 1, kDevice, 0), (LaunchShape{528, 1, 256}));
}

TEST(PlanLaunch, ABudgetIsNeverExceeded) {
  for (const int max_sms : {1, 2, 8, 24, 131, 132, 500}) {
    for (const std::int64_t threads : {1LL, 1000LL, 5000LL, 4'000'000LL}) {
      const auto shape = plan_launch(threads, 1, kDevice, max_sms);
      EXPECT_EQ(shape.threads, 1024U) << "a block fills its multiprocessor";
      EXPECT_GE(shape.blocks, 1U);
      EXPECT_LE(shape.blocks * shape.parts, static_cast<unsigned>(std::min(max_sms, 132)));
    }
  }
  EXPECT_EQ(plan_launch(4'000'000, 1, kDevice, 8), (LaunchShape{8, 1, 1024}));
  EXPECT_EQ(plan_launch(2049, 1, kDevice, 8), (LaunchShape{3, 1, 1024}));
}

TEST(PlanLaunch, LongRowsAreSharedOutWithinWhatTheDeviceHolds) {
  EXPECT_EQ(plan_launch(2 * 32, 256, kDevice, 0), (LaunchShape{1, 64, 64, 4})) << "2 rows of 1 MiB";
  EXPECT_EQ(plan_launch(131'072 * 32, 4, kDevice, 0), (LaunchShape{132, 4, 256}));
  EXPECT_EQ(plan_launch(32, 1'000'000, kDevice, 0), (LaunchShape{1, 528, 32, 8}));
  EXPECT_EQ(plan_launch(8 * 32, 216, kDevice, 0), (LaunchShape{1, 216, 256})) << "8 rows of 864 KiB";
  EXPECT_EQ(plan_launch(3 * 32, 3, kDevice, 0), (LaunchShape{1, 2, 96, 2}));
  EXPECT_EQ(plan_launch(32, 3, kDevice, 2), (LaunchShape{1, 1, 32, 3})) << "a block need not be full";
  EXPECT_EQ(plan_launch(131'072 * 32, 4, kDevice, 8), (LaunchShape{2, 4, 1024}));
  EXPECT_EQ(plan_launch(131'072 * 32, 4, kDevice, 2), (LaunchShape{1, 2, 1024}));
  EXPECT_EQ(plan_launch(1, 1'000'000, {.sms = 1000, .blocks_per_sm = 100}, 0).parts, 65'535U);
}

TEST(PlanLaunch, NothingToDoStillIsALaunch) {
  EXPECT_EQ(plan_launch(0, 1, kDevice, 0), (LaunchShape{1, 1, 256}));
  EXPECT_EQ(plan_launch(10, 1, DeviceShape{}, 0), (LaunchShape{1, 1, 256}));
}

}  // namespace
}  // namespace speedtorch::kernels
