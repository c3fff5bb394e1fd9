// The CUDA kernel's body, with every thread run on the host, against plain loops.

#include "speedtorch/kernels/cuda/flat_lane.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "speedtorch/kernels/steps/flat_step.h"
#include "tests/speedtorch/kernels/steps/every_update.h"
#include "tests/speedtorch/kernels/steps/flat_bucket.h"

namespace speedtorch::kernels {
namespace {

/// Runs all threads of each launch, the last first, because their order must not matter. @returns the number
/// of launches
template <class T>
int step_by_lanes(Bucket<T>& bucket, const std::vector<FlatRun<T>>& runs, const GradientChange& change,
                  bool zero, std::int64_t threads) {
  const bool fused = fuses(isa_in_use());  // queries the processor, which is slow in a virtual machine
  int launches = 0;
  for (std::size_t first = 0; first < runs.size(); ++launches) {
    const auto n = runs_of_launch(&runs[first], static_cast<std::int64_t>(runs.size() - first));
    std::visit(
        [&](const auto& update) {
          using Update = std::decay_t<decltype(update)>;
          const auto lane = flat_lane_of<T, Update>(bucket.tables(), &runs[first], n, change, zero);
          for (std::int64_t thread = threads - 1; thread >= 0; --thread) {
            if (fused)
              flat_lane<PlainMath<true>>(lane, thread, threads);
            else
              flat_lane<PlainMath<false>>(lane, thread, threads);
          }
        },
        *runs[first].update);
    first += static_cast<std::size_t>(n);
  }
  return launches;
}

template <class T>
void check(Half half, bool zero) {
  const GradientChange change{.inv_scale = 0.125, .max_value = 0.2, .coefficient = 0.37};
  for (const auto& options : every_update()) {
    const auto update = make_update<T>(options);
    const FlatRun<T> run{64, 1216, 3, &update};
    for (const std::int64_t threads : {1, 31, 256, 1024}) {
      Bucket<T> found(1280, half);
      Bucket<T> wanted(1280, half);
      EXPECT_EQ(step_by_lanes<T>(found, {run}, change, zero, threads), 1);
      plain_step<T>(wanted, {run}, change, zero);
      ASSERT_TRUE(found == wanted) << "update " << options.index() << ", " << threads << " threads";
    }
  }
}

TEST(FlatLane, StepsEveryElementOfTheRunOnceOnAnyNumberOfThreads) {
  check<float>(Half::none, false);
  check<double>(Half::none, false);
}

TEST(FlatLane, ZerosInTheSamePass) {
  check<float>(Half::none, true);
  check<double>(Half::none, true);
}

TEST(FlatLane, StepsHalfPrecisionByItsMasters) {
  for (const auto half : {Half::bfloat16, Half::float16}) {
    check<float>(half, false);
    check<float>(half, true);
  }
}

// Runs of other steps and options, with gaps between them, more than a launch takes, and another optimizer.
TEST(FlatLane, StepsManyRunsByOneLaunch) {
  const GradientChange change{.inv_scale = 0.125};
  for (const auto& options : every_update()) {
    const auto update = make_update<float>(options);
    auto faster = options;
    std::visit([](auto& one) { one.lr *= 2; }, faster);
    const auto other = make_update<float>(faster);
    std::vector<FlatRun<float>> runs;
    for (std::int64_t k = 0; k < 20; ++k)
      runs.push_back({k * 192, k * 192 + 64 * (1 + k % 2), 1 + k, k % 3 == 0 ? &other : &update});
    for (const std::int64_t threads : {1, 31, 1024}) {
      for (const std::size_t count : {2U, 16U, 17U, 20U}) {
        const std::vector<FlatRun<float>> some(runs.begin(),
                                               runs.begin() + static_cast<std::ptrdiff_t>(count));
        Bucket<float> found(20 * 192, Half::none);
        Bucket<float> wanted(20 * 192, Half::none);
        EXPECT_EQ(step_by_lanes<float>(found, some, change, true, threads), count > 16 ? 2 : 1);
        plain_step<float>(wanted, some, change, true);
        ASSERT_TRUE(found == wanted) << "update " << options.index() << ", " << threads << " threads, "
                                     << count;
      }
    }
  }
}

TEST(FlatLane, TakesALaunchForEachOptimizer) {
  const auto sgd = make_update<float>(SGDOptions{.lr = 0.1});
  const auto adamax = make_update<float>(AdamaxOptions{});
  const std::vector<FlatRun<float>> runs{{0, 64, 1, &sgd}, {64, 128, 1, &sgd}, {128, 192, 1, &adamax}};
  EXPECT_EQ(runs_of_launch(runs.data(), 3), 2);
  EXPECT_EQ(runs_of_launch(runs.data() + 2, 1), 1);
}

/// Each block's sum by its threads, the last first.
template <class T>
double sum_by_lanes(const FlatTables<T>& tables, std::int64_t n, const GradientChange& change,
                    std::int64_t threads) {
  double sum = 0;
  for (std::int64_t block = flat_sums(n) - 1; block >= 0; --block) {
    for (std::int64_t thread = threads - 1; thread >= 0; --thread)
      sum += square_sum_lane<PlainMath<false>>(tables, n, Change<T>(change), block, thread, threads);
  }
  return sum;
}

template <class T>
void check_sums(Half half) {
  const GradientChange change{.inv_scale = 0.125, .max_value = 0.2, .coefficient = 0.37};
  for (const std::int64_t n : {64, 16'384, 16'448, 50'048}) {
    Bucket<T> bucket(n, half);
    std::vector<double> sums(static_cast<std::size_t>(flat_sums(n)));
    const double wanted = flat_square_sum(bucket.tables(), n, change, sums.data(), serial_for);
    ASSERT_GT(wanted, 0);
    for (const std::int64_t threads : {1, 31, 256})
      EXPECT_NEAR(sum_by_lanes(bucket.tables(), n, change, threads), wanted, 1e-13 * wanted)
          << n << ", " << threads << " threads";
  }
}

TEST(FlatLane, SumsTheSquaresThatTheHostSums) {
  check_sums<float>(Half::none);
  check_sums<double>(Half::none);
  check_sums<float>(Half::bfloat16);
  check_sums<float>(Half::float16);
}

TEST(FlatLane, ASumIsNotFiniteWhereAGradientIsNot) {
  Bucket<float> bucket(64);
  bucket.grad()[63] = NAN;
  EXPECT_TRUE(std::isnan(sum_by_lanes(bucket.tables(), 64, {}, 256)));
}

}  // namespace
}  // namespace speedtorch::kernels
