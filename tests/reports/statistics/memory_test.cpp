#include "reports/statistics/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace stbench::reports {
namespace {

/// A stationary series of variance 1 whose neighbours have this correlation.
std::vector<double> wandering(std::mt19937_64& engine, std::size_t length, double memory) {
  std::normal_distribution<double> normal;
  std::vector<double> values{normal(engine)};
  while (values.size() < length)
    values.push_back(memory * values.back() + std::sqrt(1 - memory * memory) * normal(engine));
  return values;
}

TEST(Memory, IsFoundInShortSeries) {
  std::mt19937_64 engine(1);
  for (const double memory : {0.0, 0.3, 0.6, 0.8}) {
    std::vector<std::vector<double>> series;
    for (int i = 0; i < 4000; ++i) series.push_back(wandering(engine, 5, memory));
    EXPECT_NEAR(memory_of(series), memory, 0.05) << memory;
  }
}

TEST(Memory, IsFoundInSeriesOfDifferentLengths) {
  std::mt19937_64 engine(3);
  std::vector<std::vector<double>> series;
  for (int i = 0; i < 20'000; ++i) series.push_back(wandering(engine, 3, 0.6));
  for (int i = 0; i < 500; ++i) series.push_back(wandering(engine, 30, 0.6));
  EXPECT_NEAR(memory_of(series), 0.6, 0.03);
}

TEST(Memory, IsFoundInThreeValues) { EXPECT_GT(memory_of(std::vector<std::vector<double>>{{1, 2, 3}}), 0.3); }

TEST(Memory, IsNoneInSeriesThatSayNothing) {
  EXPECT_EQ(memory_of({}), 0);
  EXPECT_EQ(memory_of(std::vector<std::vector<double>>{{1, 2}, {3, 4}}), 0);
  EXPECT_EQ(memory_of(std::vector<std::vector<double>>{{1, 1, 1}}), 0);
  EXPECT_EQ(memory_of(std::vector<std::vector<double>>{{1, -1, 1, -1, 1}}), 0);  // neighbours differ
}

/// By drawing: the variance of the difference of two sides' means over what the sides' own variance says.
double drawn_inflation(double memory, bool interleaved) {
  std::mt19937_64 engine(2);
  double difference = 0, within = 0;
  constexpr int kDraws = 40'000, kSide = 5;
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto all = wandering(engine, 2 * kSide, memory);
    double mean[2] = {0, 0}, squares[2] = {0, 0};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t side = interleaved ? i % 2 : i / kSide;
      mean[side] += all[i] / kSide, squares[side] += all[i] * all[i];
    }
    difference += (mean[0] - mean[1]) * (mean[0] - mean[1]);
    for (const int side : {0, 1})
      within += (squares[side] - kSide * mean[side] * mean[side]) / (kSide - 1) / 2;
  }
  return difference / (within * 2 / kSide);
}

TEST(VarianceInflation, IsThatOfDrawnSeries) {
  const std::vector<double> first = {0, 1, 2, 3, 4}, second = {5, 6, 7, 8, 9};
  const std::vector<double> even = {0, 2, 4, 6, 8}, odd = {1, 3, 5, 7, 9};
  EXPECT_NEAR(variance_inflation(0, first, second), 1, 1e-12);
  EXPECT_NEAR(variance_inflation(0.8, first, second), drawn_inflation(0.8, false), 0.2);
  EXPECT_GT(drawn_inflation(0.8, false), 4);
  EXPECT_LT(drawn_inflation(0.8, true), 1);  // taking turns needs no correction
  EXPECT_EQ(variance_inflation(0.8, even, odd), 1);
  EXPECT_EQ(variance_inflation(0.8, std::vector<double>{0}, std::vector<double>{1}), 1);
  const std::vector<double> two = {0, 1}, three = {0, 1, 2},
                            later = {5, 6, 7, 8, 9};  // three values are enough
  EXPECT_GT(variance_inflation(0.8, three, later), 2);
  EXPECT_GT(variance_inflation(0.8, later, three), 2);
  EXPECT_EQ(variance_inflation(0.8, two, later), 1);
  EXPECT_EQ(variance_inflation(0.8, later, two), 1);
}

}  // namespace
}  // namespace stbench::reports
