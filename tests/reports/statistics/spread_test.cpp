#include "reports/statistics/spread.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

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

}  // namespace
}  // namespace stbench::reports
