// The fused pass against plain loops, element by element: unscale, clamp, clip, update, round, zero.
// updates_test.cpp tests the updates themselves.

#include "speedtorch/kernels/steps/flat_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "tests/speedtorch/kernels/counted_allocations.h"
#include "tests/speedtorch/kernels/forced_isa.h"
#include "tests/speedtorch/kernels/steps/every_update.h"
#include "tests/speedtorch/kernels/steps/flat_bucket.h"
#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

const GradientChange kChanged{.inv_scale = 0.125, .max_value = 0.2, .coefficient = 0.37};

class FlatStepOnIsa : public ::testing::TestWithParam<std::string_view> {
 protected:
  /// Two runs of different steps, with a gap, over several tiles.
  template <class T>
  static void check(Half half, const GradientChange& change, bool zero) {
    for (const auto& options : every_update()) {
      const auto update = make_update<T>(options);
      const std::vector<FlatRun<T>> runs = {{64, 192, 1, &update}, {256, 2624, 7, &update}};
      Bucket<T> found(2688, half);
      Bucket<T> wanted(2688, half);
      flat_step<T>(found.tables(), runs, change, zero, serial_for);
      plain_step<T>(wanted, runs, change, zero);
      ASSERT_TRUE(found == wanted) << "update " << options.index();
    }
  }

 private:
  ForcedIsa isa_{GetParam()};
};

TEST_P(FlatStepOnIsa, EveryUpdateIsThePlainLoops) {
  check<float>(Half::none, {}, false);
  check<double>(Half::none, {}, false);
}

TEST_P(FlatStepOnIsa, UnscalesClipsAndZerosInTheSamePass) {
  check<float>(Half::none, kChanged, true);
  check<double>(Half::none, kChanged, true);
}

TEST_P(FlatStepOnIsa, StepsHalfPrecisionByItsMasters) {
  for (const auto half : {Half::bfloat16, Half::float16}) {
    check<float>(half, {}, false);
    check<float>(half, kChanged, true);
  }
}

TEST_P(FlatStepOnIsa, SumsSquaresAsALongLoopDoes) {
  for (const std::int64_t n : {64, 1024, 1088, 50'048}) {
    Bucket<float> bucket(n);
    std::vector<double> sums(static_cast<std::size_t>(flat_sums(n)));
    const auto tables = bucket.tables();
    long double wanted = 0;
    for (std::int64_t k = 0; k < n; ++k) {
      const long double value = changed(bucket.grad()[k], {.inv_scale = 0.125, .max_value = 0.2});
      wanted += value * value;
    }
    const double found = flat_square_sum(tables, n, kChanged, sums.data(), serial_for);
    EXPECT_NEAR(found, static_cast<double>(wanted), 1e-13 * static_cast<double>(wanted)) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, FlatStepOnIsa, ::testing::ValuesIn(supported_isas()),
                         [](const auto& isa) { return std::string(isa.param); });

TEST(FlatStep, IsTheSameOnAnyNumberOfThreads) {
  const std::int64_t n = 300'032;
  const auto update = make_update<float>(AdamOptions{});
  const auto other = make_update<float>(AdamOptions{.lr = 0.1});
  const std::vector<FlatRun<float>> runs = {
      {0, 64, 2, &update}, {128, 70'016, 1, &other}, {70'016, n, 3, &update}};
  Bucket<float> wanted(n);
  plain_step(wanted, runs, kChanged, true);
  for (std::int64_t threads = 1; threads <= 8; ++threads) {
    Bucket<float> found(n);
    flat_step<float>(found.tables(), runs, kChanged, true, ThreadPool(threads));
    EXPECT_TRUE(found == wanted) << threads << " threads";
  }
}

TEST(FlatStep, SumsTheSameOnAnyNumberOfThreadsAndAnyInstructionSet) {
  const std::int64_t n = 600'064;
  Bucket<float> bucket(n);
  std::vector<double> sums(static_cast<std::size_t>(flat_sums(n)));
  const double wanted = flat_square_sum(bucket.tables(), n, {}, sums.data(), serial_for);
  for (const auto isa : supported_isas()) {
    const ForcedIsa forced(isa);
    for (std::int64_t threads = 1; threads <= 5; ++threads)
      EXPECT_EQ(flat_square_sum(bucket.tables(), n, {}, sums.data(), ThreadPool(threads)), wanted) << isa;
  }
}

TEST(FlatStep, SumsAreNotFiniteWhereAGradientIsNot) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    Bucket<float> bucket(4096);
    bucket.grad()[4000] = bad;
    std::vector<double> sums(1);
    EXPECT_FALSE(std::isfinite(flat_square_sum(bucket.tables(), 4096, {}, sums.data(), serial_for))) << bad;
  }
  Bucket<float> huge(4096);
  huge.grad()[1] = 3e38F;
  std::vector<double> sums(1);
  EXPECT_TRUE(std::isfinite(flat_square_sum(huge.tables(), 4096, {}, sums.data(), serial_for)));
}

TEST(FlatStep, TheClampPropagatesNaN) {
  const auto update = make_update<float>(SGDOptions{.lr = 1});
  const std::vector<FlatRun<float>> runs = {{0, 64, 1, &update}};
  Bucket<float> bucket(64);
  bucket.grad()[5] = NAN;
  flat_step<float>(bucket.tables(), runs, {.max_value = 0.5}, false, serial_for);
  EXPECT_TRUE(std::isnan(bucket.param()[5]));
  EXPECT_FALSE(std::isnan(bucket.param()[6]));
}

TEST(FlatStep, NoRunsWriteNothing) {
  Bucket<float> found(64);
  const Bucket<float> before(64);
  flat_step<float>(found.tables(), {}, {}, true, serial_for);
  EXPECT_TRUE(found == before);
}

TEST(FlatStep, AllocatesNothing) {
  const auto update = make_update<float>(AdamOptions{});
  const std::vector<FlatRun<float>> runs = {{0, 64'000, 1, &update}};
  Bucket<float> bucket(64'000);
  std::vector<double> sums(static_cast<std::size_t>(flat_sums(64'000)));
  const auto before = allocations();
  flat_step<float>(bucket.tables(), runs, {}, true, serial_for);
  flat_square_sum(bucket.tables(), 64'000, {}, sums.data(), serial_for);
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace speedtorch::kernels
