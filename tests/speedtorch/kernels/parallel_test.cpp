#include "speedtorch/kernels/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <type_traits>
#include <vector>

#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

/// How often each item of [0, n) is done.
std::vector<int> visits(ParallelFor parallel_for, std::int64_t n, std::int64_t grain) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(n));
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++counts[static_cast<std::size_t>(i)];
  });
  return {counts.begin(), counts.end()};
}

TEST(ParallelFor, TakesFunctionsLambdasAndConstObjects) {
  const ThreadPool pool(3);
  const auto reversed = [](std::int64_t n, std::int64_t, RangeBody body) {
    for (std::int64_t i = n; i-- > 0;) body(i, i + 1);
  };
  EXPECT_EQ(visits(serial_for, 100, 7), std::vector<int>(100, 1));
  EXPECT_EQ(visits(reversed, 100, 7), std::vector<int>(100, 1));
  EXPECT_EQ(visits(pool, 100, 7), std::vector<int>(100, 1));
  EXPECT_EQ(visits(pool, 0, 7), std::vector<int>());
}

TEST(ParallelFor, CallsTheObjectItselfAndNoCopy) {
  struct Counting {
    int calls = 0;
    void operator()(std::int64_t, std::int64_t) { ++calls; }
  } counting;
  const RangeBody body = counting;
  body(0, 1);
  const RangeBody copy = body;
  copy(1, 2);
  EXPECT_EQ(counting.calls, 2);
}

TEST(FunctionRef, IsSmallAndOwnsNothing) {
  static_assert(sizeof(RangeBody) == 2 * sizeof(void*));
  static_assert(std::is_trivially_copyable_v<RangeBody>);
  static_assert(!std::is_constructible_v<RangeBody, int>);
  int sum = 0;
  const auto add = [&sum](int a, int b) { return sum += a * b; };
  const FunctionRef<int(int, int)> reference = add;
  EXPECT_EQ(reference(2, 3), 6);
  EXPECT_EQ(reference(1, 1), 7);
}

}  // namespace
}  // namespace speedtorch::kernels
