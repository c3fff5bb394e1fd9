// The rule that says when an index is sorted, against figures worked out by hand.

#include "speedtorch/kernels/rows/index_order.h"

#include <gtest/gtest.h>

namespace speedtorch::kernels {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

TEST(BestOrder, NothingIsSortedInDeviceMemory) {
  EXPECT_EQ(best_order({20 * kMillion, 4, kMillion, false}), IndexOrder::as_given);
  EXPECT_EQ(best_order({10 * kMillion, 512, kMillion, false, 0.01}), IndexOrder::as_given);
}

TEST(BestOrder, TinyRowsAreSortedWhereManyShareALine) {
  EXPECT_EQ(best_order({20 * kMillion, 4, 4 * kMillion, true}), IndexOrder::as_given)
      << "6.5 ns an index against 1.3 ns a request: with the published sort it does not pay";
  OrderCosts quick;
  quick.sort_index = 0.3e-9;
  EXPECT_EQ(best_order({20 * kMillion, 4, 4 * kMillion, true}, quick), IndexOrder::sorted);
  EXPECT_EQ(best_order({20 * kMillion, 4, 1000, true}, quick), IndexOrder::as_given) << "the start rules";
}

TEST(BestOrder, ASmallBatchOfFeaturesStaysAsGiven) {
  EXPECT_EQ(best_order({10 * kMillion, 512, 131'072, true}), IndexOrder::as_given);
  EXPECT_EQ(best_order({10 * kMillion, 4096, 131'072, true}), IndexOrder::sorted);
}

TEST(BestOrder, RepeatedRowsCrossTheLinkOnce) {
  EXPECT_EQ(best_order({10 * kMillion, 1024, 131'072, true, 0.36}), IndexOrder::unique) << "zipf 1.05";
  EXPECT_EQ(best_order({10 * kMillion, 1024, 131'072, true, 0.99}), IndexOrder::as_given) << "uniform";
}

TEST(BestOrder, KeepsTheOrderIfSortingIsImpossible) {
  EXPECT_EQ(best_order({10, 4096, 0, true}), IndexOrder::as_given);
  EXPECT_EQ(best_order({10, 4096, std::int64_t{1} << 31, true, 0.01}), IndexOrder::as_given);
}

/// 131,072 rows of 4 lines at 35e9 payload bytes a second.
TEST(OrderSeconds, FollowTheFigures) {
  const OrderQuestion gather{10 * kMillion, 512, 131'072, true, 0.5};
  const double link = 131'072 * 512 / 35e9;
  EXPECT_NEAR(order_seconds(gather, IndexOrder::as_given), link, 1e-9);
  const double sort = 0.15e-3 + 6.5e-9 * 131'072;
  EXPECT_NEAR(order_seconds(gather, IndexOrder::sorted), sort + link / 1.3, 1e-9);
  const double copy = 2.0 * 131'072 * 512 / 4.3e12;
  EXPECT_NEAR(order_seconds(gather, IndexOrder::unique), sort + link / 2 / 1.3 + copy, 1e-9);
}

/// A request of 4 bytes costs a sector and the overhead; sorted, a line's 32 rows cost one request.
TEST(OrderSeconds, TinyRowsShareRequestsWhenSorted) {
  const OrderQuestion dense{3200, 4, 3200 * 50, true};
  const double raw = 35e9 * 148 / 128;
  EXPECT_NEAR(order_seconds(dense, IndexOrder::as_given), 160'000 * 52 / raw, 1e-9);
  OrderCosts free_sort;
  free_sort.sort_start = free_sort.sort_index = 0;
  EXPECT_NEAR(order_seconds(dense, IndexOrder::sorted, free_sort), 100 * 148 / raw, 1e-9);
}

}  // namespace
}  // namespace speedtorch::kernels
