#include "reports/statistics/trend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace stbench::reports {
namespace {

double sum_of(const std::vector<double>& series) {
  double sum = 0;
  for (std::size_t j = 0; j < series.size(); ++j)
    for (std::size_t i = 0; i < j; ++i) sum += series[j] > series[i] ? 1 : series[j] < series[i] ? -1 : 0;
  return sum;
}

/// Of all orders of the numbers, the share whose sum is at least as far from 0.
double p_of_all_orders(const std::vector<double>& series) {
  std::vector<double> order(series);
  std::ranges::sort(order);
  double all = 0, as_far = 0;
  do {
    ++all;
    as_far += std::abs(sum_of(order)) >= std::abs(sum_of(series)) ? 1 : 0;
  } while (std::ranges::next_permutation(order).found);
  return as_far / all;
}

TEST(Trend, SlopeIsThatOfALineWhateverTheOutliers) {
  std::vector<double> line(21);
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = 3 + 0.25 * static_cast<double>(i);
  line[4] = 1000, line[15] = -1000;
  EXPECT_DOUBLE_EQ(trend_of(line).slope, 0.25);
  EXPECT_LT(trend_of(line).p, 1e-4);
}

TEST(Trend, TestIsThatOverAllOrders) {
  for (const std::vector<double>& series : {std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8},
                                            {8, 7, 6, 5, 4, 3, 1, 2},
                                            {3, 1, 4, 1, 5, 9, 2, 6},
                                            {1, 2, 1, 2, 1, 2, 3, 3},
                                            {5, 4, 6, 3, 7, 2, 8, 1}}) {
    EXPECT_NEAR(trend_of(series).p, p_of_all_orders(series), 0.02);
  }
}

TEST(Trend, EqualNumbersAndShortSeriesShowNone) {
  const auto p = [](const std::vector<double>& series) { return trend_of(series).p; };
  EXPECT_EQ(p({}), 1);
  EXPECT_EQ(p({1, 2}), 1);
  EXPECT_EQ(p({4, 4, 4, 4, 4}), 1);
}

TEST(Trend, RemembersThatNeighboursAreAlike) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  constexpr double memory = 0.7;
  constexpr int series = 2000;
  int plain = 0, told = 0;
  for (int k = 0; k < series; ++k) {
    std::vector<double> values;
    for (double value = normal(engine); values.size() < 20;) {
      values.push_back(value);
      value = memory * value + std::sqrt(1 - memory * memory) * normal(engine);
    }
    plain += trend_of(values).p <= 0.05 ? 1 : 0;
    told += trend_of(values, memory).p <= 0.05 ? 1 : 0;
  }
  EXPECT_GT(plain, series * 0.2) << "without the correction such noise looks like a trend";
  EXPECT_LT(told, series * 0.07);
}

TEST(Trend, WithoutItNothingIsLeft) {
  const std::vector<double> line{1, 3, 5, 7, 9};
  for (const double rest : without_trend(line)) EXPECT_DOUBLE_EQ(rest, 1);
}

}  // namespace
}  // namespace stbench::reports
