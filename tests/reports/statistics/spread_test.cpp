#include "reports/statistics/spread.h"

#include <gtest/gtest.h>

#include <array>
#include <span>

namespace stbench::reports {
namespace {

TEST(Scatter, IsTheSumOfSquaredDistancesFromTheMeanOfEachSide) {
  Scatter scatter;
  scatter.add(std::array{1.0, 2.0, 6.0});  // mean 3: 4 + 1 + 9
  EXPECT_DOUBLE_EQ(scatter.squares, 14);
  EXPECT_EQ(scatter.freedom, 2);
  scatter.add(std::array{10.0, 12.0});  // mean 11
  EXPECT_DOUBLE_EQ(scatter.squares, 16);
  EXPECT_EQ(scatter.freedom, 3);
  scatter.add(std::array{5.0});  // one process says nothing of a spread
  EXPECT_DOUBLE_EQ(scatter.squares, 16);
  EXPECT_EQ(scatter.freedom, 3);
  scatter.add(0.5, 4);
  EXPECT_DOUBLE_EQ(scatter.squares, 17);
  EXPECT_EQ(scatter.freedom, 7);
}

TEST(SpreadPrior, IsOfThreeRowsOrMore) {
  const std::array rows{Scatter{.squares = 4, .freedom = 4}, Scatter{.squares = 9, .freedom = 4},
                        Scatter{.squares = 1, .freedom = 4}};
  EXPECT_GT(spread_prior(rows).freedom, 0);
  EXPECT_EQ(spread_prior(std::span(rows).first(2)).freedom, 0);
}

}  // namespace
}  // namespace stbench::reports
