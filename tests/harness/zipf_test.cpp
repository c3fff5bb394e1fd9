#include "harness/zipf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace stbench::harness {
namespace {

struct Law {
  std::int64_t count;
  double exponent;
};

class ZipfLaw : public testing::TestWithParam<Law> {};

/// Chi-square over the ranks of which at least 20 draws are expected, the others taken together.
TEST_P(ZipfLaw, IsKept) {
  const auto [count, exponent] = GetParam();
  constexpr int kDraws = 300'000;
  std::vector<double> weights(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < weights.size(); ++k)
    weights[k] = std::pow(static_cast<double>(k + 1), -exponent);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int> counts(weights.size());
  const Zipf zipf(count, exponent);
  Random random(17);
  for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(zipf(random) - 1));

  double chi_square = 0, rest_expected = 0, rest_counted = 0;
  int cells = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double expected = kDraws * weights[k] / total;
    if (expected < 20) {
      rest_expected += expected;
      rest_counted += counts[k];
      continue;
    }
    chi_square += (counts[k] - expected) * (counts[k] - expected) / expected;
    ++cells;
  }
  if (rest_expected >= 20) {
    chi_square += (rest_counted - rest_expected) * (rest_counted - rest_expected) / rest_expected;
    ++cells;
  }
  ASSERT_GT(cells, 1);
  // Mean cells - 1, variance twice that; five standard deviations.
  EXPECT_LT(chi_square, cells - 1 + 5 * std::sqrt(2.0 * (cells - 1)));
}

INSTANTIATE_TEST_SUITE_P(Table, ZipfLaw,
                         testing::Values(Law{2, 1.0}, Law{10, 0.5}, Law{100, 1.0}, Law{1000, 1.05},
                                         Law{100'000, 0.99}, Law{1'000'000, 1.2}, Law{5, 4.0},
                                         Law{50, 1e-3}));

TEST(Zipf, SingleRankIsAlwaysDrawn) {
  Random random(1);
  for (const double exponent : {0.1, 1.0, 20.0}) {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(Zipf(1, exponent)(random), 1);
  }
}

TEST(Zipf, StaysInRangeForTheLargestTables) {
  const std::int64_t count = std::int64_t{1} << 50;
  Random random(2);
  for (const double exponent : {0.01, 0.5, 1.0, 1.05, 3.0, 20.0}) {
    const Zipf zipf(count, exponent);
    for (int i = 0; i < 10'000; ++i) {
      const std::int64_t rank = zipf(random);
      ASSERT_TRUE(rank >= 1 && rank <= count) << exponent;
    }
  }
}

}  // namespace
}  // namespace stbench::harness
