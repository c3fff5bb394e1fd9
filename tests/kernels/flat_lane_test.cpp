// The body of the CUDA kernel, every thread of it run on the host, against plain loops.

#include "kernels/flat_lane.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/every_update.h"
#include "tests/kernels/flat_bucket.h"

namespace speedtorch::kernels {
namespace {

/// All threads of a launch, last first: their order must not matter.
template <class T>
void step_by_lanes(Bucket<T>& bucket, const FlatRun<T>& run, const GradientChange& change, bool zero,
                   std::int64_t threads) {
  const FlatLane<T> lane{bucket.tables(), run.begin, run.end, Change<T>(change), zero};
  const bool fused = fuses(isa_in_use());  // asks the processor, which takes long in a virtual machine
  std::visit(
      [&](const auto& update) {
        for (std::int64_t thread = threads - 1; thread >= 0; --thread) {
          if (fused)
            flat_lane<PlainMath<true>>(lane, update, update.at(run.step), thread, threads);
          else
            flat_lane<PlainMath<false>>(lane, update, update.at(run.step), thread, threads);
        }
      },
      *run.update);
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
      step_by_lanes(found, run, change, zero, threads);
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

}  // namespace
}  // namespace speedtorch::kernels
