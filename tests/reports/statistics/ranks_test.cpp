#include "reports/statistics/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "reports/files/file.h"
#include "reports/statistics/probability.h"
#include "tests/paths.h"

namespace stbench::reports {
namespace {

using Numbers = std::vector<double>;

/// SciPy's statistics, as tests/reports/statistics/make_rank_reference.py wrote them down.
const nlohmann::json& scipy() {
  static const auto reference =
      nlohmann::json::parse(read_file(stbench::test::source_folder() + "/tests/data/rank_statistics.json"));
  return reference;
}

/// Two sets without ties of which `u` pairs have the larger number in the second.
std::pair<Numbers, Numbers> with_u(int n, int m, int u) {
  Numbers first, second;
  for (int i = 0; i < n; ++i) first.push_back(i);
  for (int j = 0; j < m; ++j) {
    const int above = std::min(u, n);
    u -= above;
    second.push_back(above - 0.5 + 0.001 * j);
  }
  return {first, second};
}

TEST(Ranks, SciPySaysTheSame) {
  int exact = 0;
  for (const auto& pair : scipy()["pairs"]) {
    const auto first = pair["first"].get<Numbers>(), second = pair["second"].get<Numbers>();
    const auto test = mann_whitney(first, second);
    const auto shift = hodges_lehmann(first, second);
    SCOPED_TRACE(std::to_string(first.size()) + " and " + std::to_string(second.size()));
    EXPECT_DOUBLE_EQ(test.u, pair["u"].get<double>());
    EXPECT_NEAR(test.p, pair["p"].get<double>(), 1e-9);
    EXPECT_EQ(test.exact, pair["exact"].get<bool>());
    EXPECT_NEAR(shift.estimate, pair["shift"].get<double>(), 1e-12);
    if (!pair["exact"]) continue;
    ++exact;
    ASSERT_EQ(shift.interval.has_value(), !pair["interval"].is_null());
    if (!shift.interval) continue;
    EXPECT_NEAR(shift.interval->low, pair["interval"][0].get<double>(), 1e-12);
    EXPECT_NEAR(shift.interval->high, pair["interval"][1].get<double>(), 1e-12);
  }
  EXPECT_GT(exact, 20);
}

// Mann and Whitney's table as every textbook prints it: the largest U that is significant at 5 %, two-sided.
TEST(Ranks, CriticalValuesArePublishedOnes) {
  const std::vector<std::tuple<int, int, int>> published = {
      {4, 4, 0},    {5, 5, 2},   {5, 8, 6},    {6, 6, 5},    {7, 7, 8},     {8, 8, 13},
      {10, 10, 23}, {9, 12, 26}, {12, 12, 37}, {15, 15, 64}, {20, 20, 127}, {10, 20, 55}};
  for (const auto& [n, m, critical] : published) {
    const auto [first, second] = with_u(n, m, critical);
    const auto [third, fourth] = with_u(n, m, critical + 1);
    ASSERT_EQ(mann_whitney(first, second).u, critical);
    EXPECT_LE(mann_whitney(first, second).p, 0.05) << n << ", " << m;
    EXPECT_GT(mann_whitney(third, fourth).p, 0.05) << n << ", " << m;
  }
}

// One number against three: each of the four places has a quarter of the law, which an interval of 50 % may
// leave out at either end, and not less.
TEST(Ranks, AnIntervalLeavesOutWhatItsCoverageAllows) {
  const std::vector<double> one{0}, three{1, 2, 4};
  const auto half = hodges_lehmann(one, three, 0.5).interval;
  ASSERT_TRUE(half);
  EXPECT_EQ(half->low, 1);
  EXPECT_EQ(half->high, 4);
  EXPECT_FALSE(hodges_lehmann(one, three, 0.51).interval);
}

TEST(Ranks, TheLeastPIsThatOfCompleteSeparation) {
  for (const auto& [n, m] : {std::pair(3, 3), {5, 5}, {1, 5}, {4, 7}}) {
    const auto [first, second] = with_u(n, m, n * m);
    EXPECT_NEAR(mann_whitney(first, second).p,
                least_p(static_cast<std::size_t>(n), static_cast<std::size_t>(m)), 1e-12);
  }
  EXPECT_DOUBLE_EQ(least_p(3, 3), 0.1);
  EXPECT_DOUBLE_EQ(least_p(1, 1), 1);
}

TEST(Ranks, EqualNumbersTellNothing) {
  const Numbers same(30, 1.5);
  EXPECT_EQ(mann_whitney(same, same).p, 1);
  EXPECT_EQ(mann_whitney(Numbers(4, 2.0), Numbers(5, 2.0)).p, 1);
  EXPECT_EQ(hodges_lehmann(same, same).estimate, 0);
  ASSERT_TRUE(hodges_lehmann(same, same).interval);
  EXPECT_EQ(*hodges_lehmann(same, same).interval, (Interval{0, 0}));
}

TEST(Ranks, SidesCanBeSwapped) {
  for (const auto& pair : scipy()["pairs"]) {
    const auto first = pair["first"].get<Numbers>(), second = pair["second"].get<Numbers>();
    EXPECT_NEAR(mann_whitney(first, second).p, mann_whitney(second, first).p, 1e-12);
    EXPECT_NEAR(hodges_lehmann(first, second).estimate, -hodges_lehmann(second, first).estimate, 1e-12);
  }
}

/// The share of all choices of signs whose sum of ranks lies at least as far from the middle, on either side.
double p_by_all_signs(const Numbers& twice_ranks, double twice_u) {
  const auto choices = std::size_t{1} << twice_ranks.size();
  std::size_t below = 0, above = 0;
  for (std::size_t signs = 0; signs < choices; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < twice_ranks.size(); ++i) sum += (signs >> i & 1) != 0 ? twice_ranks[i] : 0;
    below += sum <= twice_u ? 1 : 0;
    above += sum >= twice_u ? 1 : 0;
  }
  return std::min(1.0, 2.0 * static_cast<double>(std::min(below, above)) / static_cast<double>(choices));
}

TEST(SignedRanks, EnumeratingAllSignsSaysTheSame) {
  const RankTest plain = signed_ranks(Numbers{0.3, -0.1, 0.5, 0.2, -0.4, 0.6, 0.7});
  EXPECT_EQ(plain.u, 3 + 5 + 2 + 6 + 7);
  EXPECT_DOUBLE_EQ(plain.p, p_by_all_signs({2, 4, 6, 8, 10, 12, 14}, 46));
  // Two are equal but for their sign and share the ranks 1 and 2; the zero is left out.
  const RankTest tied = signed_ranks(Numbers{-1, 1, 0, 2, 3});
  EXPECT_EQ(tied.u, 1.5 + 3 + 4);
  EXPECT_DOUBLE_EQ(tied.p, p_by_all_signs({3, 3, 6, 8}, 17));
  EXPECT_TRUE(tied.exact);
}

TEST(SignedRanks, TheLeastPIsThatOfEqualSigns) {
  Numbers differences;
  for (std::size_t n = 1; n <= 12; ++n) {
    differences.push_back(-static_cast<double>(n));
    EXPECT_NEAR(signed_ranks(differences).p, least_p_of_pairs(n), 1e-12) << n;
  }
  EXPECT_DOUBLE_EQ(least_p_of_pairs(5), 0.0625);
}

TEST(SignedRanks, TheNormalLawContinuesTheExactOne) {
  Numbers differences;
  for (int i = 1; i <= 50; ++i) differences.push_back(i % 3 == 0 ? -i : i);
  const double exact = signed_ranks(differences).p;
  differences.push_back(0.5);
  const RankTest normal = signed_ranks(differences);
  EXPECT_FALSE(normal.exact);
  EXPECT_NEAR(normal.p, exact, exact / 10);
}

TEST(SignedRanks, NoDifferenceTellsNothingAndNoPairIsRefused) {
  EXPECT_EQ(signed_ranks(Numbers{0, 0, 0}).p, 1);
  EXPECT_THROW(signed_ranks({}), std::invalid_argument);
  EXPECT_THROW(median_of_walsh_averages({}), std::invalid_argument);
}

TEST(SignedRanks, AnOutlierMovesTheMedianOfWalshAveragesLittle) {
  EXPECT_DOUBLE_EQ(median_of_walsh_averages(Numbers{1, 2, 3}), 2);
  // The means are 1, 1.5, 2, 2, 2.5, 3 of the first three, and 50.5, 51, 51.5 and 100 with the fourth.
  EXPECT_DOUBLE_EQ(median_of_walsh_averages(Numbers{1, 2, 3, 100}), (2.5 + 3) / 2);
}

// 10^10 differences, of which a shift of 0.25 is the median: they cannot be written down one by one.
TEST(Ranks, ManySamplesTakeNoMemory) {
  Numbers first(100'000), second;
  std::iota(first.begin(), first.end(), 0.0);
  for (const double x : first) second.push_back(x + 0.25);
  EXPECT_NEAR(hodges_lehmann(first, second).estimate, 0.25, 1e-9);
}

TEST(Ranks, NothingAndNaNAreRefused) {
  const Numbers none, one = {1}, nan = {std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW(mann_whitney(none, one), std::invalid_argument);
  EXPECT_THROW(mann_whitney(one, nan), std::invalid_argument);
  EXPECT_THROW(hodges_lehmann(one, none), std::invalid_argument);
}

// The example of R's p.adjust page and of Holm's paper: 0.01, 0.02, 0.03, 0.04 and the like, by hand.
TEST(Holm, StepsDownAndNeverBack) {
  const auto corrected = holm(Numbers{0.01, 0.04, 0.03, 0.005});
  const Numbers expected = {0.03, 0.06, 0.06, 0.02};
  ASSERT_EQ(corrected.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(corrected[i], expected[i], 1e-15);
  EXPECT_EQ(holm(Numbers{0.6, 0.7}), (Numbers{1, 1}));
  EXPECT_TRUE(holm(Numbers{}).empty());
}

TEST(Probability, SciPySaysTheSame) {
  for (const auto& row : scipy()["student"]) {
    const double p = row["p"], t = row["t"], freedom = row["freedom"];
    EXPECT_NEAR(student_two_sided(t, freedom) / p, 1, 1e-8) << t << " of " << freedom;
  }
  for (const auto& row : scipy()["polygamma"]) {
    const double x = row["x"];
    EXPECT_NEAR(digamma(x), row["digamma"].get<double>(),
                1e-12 * std::max(1.0, std::abs(row["digamma"].get<double>())));
    EXPECT_NEAR(trigamma(x) / row["trigamma"].get<double>(), 1, 1e-12);
    EXPECT_NEAR(trigamma_inverse(trigamma(x)), x, 1e-9 * x);
  }
  // Where the series begin: the harmonic numbers less Euler's constant, in 40 digits.
  EXPECT_NEAR(digamma(12), 2.442661679975812016738, 4e-15);
  EXPECT_NEAR(trigamma(12), 0.086901872871768390750, 4e-15);
}

TEST(Probability, StudentsLawIsExactAtItsEnds) {
  for (const double freedom : {0.5, 1.0, 5.0, 1e6}) {
    EXPECT_EQ(student_two_sided(0, freedom), 1) << freedom;
    EXPECT_EQ(student_two_sided(std::numeric_limits<double>::infinity(), freedom), 0) << freedom;
  }
}

// Student's table, two-sided 5 % and 1 %.
TEST(Probability, QuantilesArePublishedOnes) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const auto& [freedom, five, one] : {std::tuple(1.0, 12.706, 63.657),
                                           {2.0, 4.303, 9.925},
                                           {4.0, 2.776, 4.604},
                                           {10.0, 2.228, 3.169},
                                           {30.0, 2.042, 2.750},
                                           {infinite, 1.960, 2.576}}) {
    EXPECT_NEAR(student_quantile(0.05, freedom), five, 6e-4);
    EXPECT_NEAR(student_quantile(0.01, freedom), one, 6e-4);
  }
  // Quantiles below 1, and none at all.
  EXPECT_NEAR(student_quantile(0.5, 10), 0.700, 6e-4);
  EXPECT_NEAR(student_quantile(0.5, infinite), 0.674, 6e-4);
  EXPECT_NEAR(student_quantile(1, 10), 0, 1e-9);
  EXPECT_THROW(student_quantile(0, 5), std::invalid_argument);
  EXPECT_THROW(student_quantile(0.5, 0), std::invalid_argument);
}

}  // namespace
}  // namespace stbench::reports
