#include "reports/statistics/statistics.h"

#include "reports/statistics/role.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

/// P(k <= B <= n-k), by Pascal's triangle: sums of doubles that are exact up to n = 50 and good to 1e-12
/// beyond.
double coverage_by_pascal(std::size_t n, std::size_t k) {
  std::vector<double> row = {1.0};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> next(row.size() + 1, 0.0);
    for (std::size_t j = 0; j < row.size(); ++j) {
      next[j] += row[j] / 2;
      next[j + 1] += row[j] / 2;
    }
    row = next;
  }
  const auto begin = row.begin() + static_cast<std::ptrdiff_t>(k);
  const auto end = row.begin() + static_cast<std::ptrdiff_t>(n - k + 1);
  return k > n - k ? 0.0 : std::accumulate(begin, end, 0.0);
}

// The published table of confidence limits for the median (sign test, 95 %): the rank of the lower limit.
TEST(Statistics, RanksArePublishedOnes) {
  const std::map<std::size_t, std::size_t> published = {
      {6, 1},  {7, 1},  {8, 1},   {9, 2},   {10, 2},  {11, 2},  {12, 3},  {15, 4},  {17, 5},
      {20, 6}, {25, 8}, {30, 10}, {31, 10}, {40, 14}, {50, 18}, {61, 23}, {100, 40}};
  for (const auto& [n, rank] : published) EXPECT_EQ(interval_rank(n), rank) << "n = " << n;
  for (std::size_t n = 0; n < 6; ++n) EXPECT_FALSE(interval_rank(n)) << "n = " << n;
}

TEST(Statistics, RanksAreTheLargestThatCover) {
  for (std::size_t n = 1; n <= 200; ++n) {
    const std::size_t rank = interval_rank(n).value_or(0);
    EXPECT_TRUE(rank == 0 || coverage_by_pascal(n, rank) >= 0.95) << n;
    EXPECT_LT(coverage_by_pascal(n, rank + 1), 0.95) << n;
  }
}

TEST(Statistics, RanksTakeACoverageThatIsMetExactly) {
  EXPECT_EQ(interval_rank(5, 0.9375), 1U);
  EXPECT_EQ(interval_rank(2, 0.5), 1U);
}

TEST(Statistics, RanksOfManySamplesFollowTheNormalLaw) {
  const std::size_t n = 100'000;
  const double expected = static_cast<double>(n) / 2 - 1.959964 * std::sqrt(static_cast<double>(n)) / 2;
  EXPECT_NEAR(static_cast<double>(interval_rank(n).value()), expected, 1.5);
}

TEST(Statistics, IntervalIsBetweenItsRanks) {
  std::vector<double> samples(11);
  std::iota(samples.begin(), samples.end(), 1.0);
  std::shuffle(samples.begin(), samples.end(), std::mt19937(3));
  EXPECT_EQ(median_interval(samples), (Interval{2, 10}));
  EXPECT_FALSE(median_interval(std::vector<double>(5, 1.0)));
  EXPECT_FALSE(median_interval(std::vector<double>{}));
}

TEST(Statistics, IntervalCoversTheMedianAsOftenAsItSays) {
  std::mt19937_64 bits(11);
  std::exponential_distribution<double> skewed(1.0);
  const double truth = std::log(2.0);
  int covered = 0;
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> samples(31);
    std::generate(samples.begin(), samples.end(), [&] { return skewed(bits); });
    const Interval interval = median_interval(samples).value();
    covered += interval.low <= truth && truth <= interval.high ? 1 : 0;
  }
  EXPECT_GT(covered, kRuns * 0.95);
}

// numpy.median and numpy.quantile of the same numbers, as printed by repr().
TEST(Statistics, MediansAndQuantilesAreNumPys) {
  const std::vector<double> samples = {0.3, 0.1, 0.2, 0.7, 0.5, 0.11, 0.13};
  EXPECT_EQ(median(samples), 0.2);
  EXPECT_EQ(quantile(samples, 0.05), 0.10300000000000001);
  EXPECT_EQ(quantile(samples, 0.25), 0.12);
  EXPECT_EQ(quantile(samples, 0.95), 0.6399999999999998);
  EXPECT_EQ(quantile(samples, 0), 0.1);
  EXPECT_EQ(quantile(samples, 1), 0.7);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{8}), 8);
  EXPECT_EQ(quantile(std::vector<double>{8}, 0.95), 8);
}

TEST(Statistics, RefusesNoSamplesAndNoQuantile) {
  EXPECT_THROW(median(std::vector<double>{}), std::invalid_argument);
  EXPECT_THROW(quantile(std::vector<double>{}, 0.5), std::invalid_argument);
  EXPECT_THROW(quantile(std::vector<double>{1}, 1.5), std::invalid_argument);
  EXPECT_THROW(quantile(std::vector<double>{1}, std::nan("")), std::invalid_argument);
}

TEST(Statistics, ANanIsSortedLastAndBreaksNothing) {
  std::vector<double> samples(40, 1.0);
  for (std::size_t i = 0; i < samples.size(); i += 9) samples[i] = std::nan("");
  EXPECT_EQ(median(samples), 1.0);
}

TEST(Statistics, RatiosGoRoundByRound) {
  std::vector<double> ours(11);
  std::iota(ours.begin(), ours.end(), 1.0);
  std::vector<double> theirs(11);  // the machine drifts by 11×, the ratio stays
  std::transform(ours.begin(), ours.end(), theirs.begin(), [](double s) { return 3 * s; });
  EXPECT_EQ(ratio_interval(theirs, ours), (Interval{3, 3}));
  theirs.pop_back();
  EXPECT_FALSE(ratio_interval(theirs, ours));
  EXPECT_THROW(ratios(theirs, ours), std::invalid_argument);
}

TEST(Statistics, SummarisesARecord) {
  Record record;
  for (int i = 11; i >= 1; --i) record.samples_s.push_back(i);
  summarise(record);
  EXPECT_EQ(record.samples, 11);
  EXPECT_EQ(record.median_s, 6);
  EXPECT_EQ(record.ci_low_s, 2);
  EXPECT_EQ(record.ci_high_s, 10);
  EXPECT_EQ(record.min_s, 1);
  EXPECT_EQ(record.p05_s, 1.5);
  EXPECT_EQ(record.p95_s, 10.5);
  EXPECT_EQ(record.samples_s.front(), 11) << "the order of the rounds must stay";
  record.samples_s.resize(5);
  summarise(record);
  EXPECT_EQ(record.median_s, 9);
  EXPECT_FALSE(record.ci_low_s || record.ci_high_s);
}

TEST(Statistics, UnmeasuredRowsHaveNoNumbers) {
  for (const Status status : {Status::waived, Status::wrong, Status::failed}) {
    std::vector<Record> records = {measured("to", "hugepage", "speedtorch", 0.5)};
    derive(records);
    ASSERT_TRUE(records[0].gb_per_s);
    records[0].status = status;
    summarise(records[0]);
    derive(records);
    const Record& record = records[0];
    EXPECT_EQ(record.samples, 0);
    EXPECT_TRUE(record.samples_s.empty());
    for (const auto& number : {record.median_s, record.ci_low_s, record.ci_high_s, record.min_s, record.p05_s,
                               record.p95_s, record.gb_per_s, record.copy_fraction, record.speedup}) {
      EXPECT_FALSE(number);
    }
  }
}

TEST(Statistics, DerivesAgainstTheFastestOfTheCell) {
  std::vector<Record> records = {
      measured("to", "hugepage", "speedtorch", 0.004), measured("to", "hugepage", "index_select", 0.010),
      measured("to", "hugepage", "advanced", 0.040),   measured("to", "hugepage", "copy", 0.003),
      measured("to", "hugepage", "stream", 0.002),     measured("to", "libtorch", "index_select", 0.001)};
  derive(records);
  EXPECT_DOUBLE_EQ(records[0].gb_per_s.value(), 131072.0 * 512 / 0.004 / 1e9);
  EXPECT_DOUBLE_EQ(records[0].copy_fraction.value(), 0.5);
  EXPECT_DOUBLE_EQ(records[0].speedup.value(), 2.5);
  EXPECT_EQ(records[1].speedup, 1.0);
  EXPECT_DOUBLE_EQ(records[2].speedup.value(), 0.25);
  EXPECT_EQ(records[4].copy_fraction, 1.0);
  EXPECT_FALSE(records[5].copy_fraction) << "no ceiling in its cell";
}

TEST(Statistics, AWrongRowIsNobodysReference) {
  std::vector<Record> records = {measured("to", "hugepage", "speedtorch", 0.004),
                                 measured("to", "hugepage", "index_select", 0.010),
                                 measured("to", "hugepage", "advanced", 0.001)};
  records[2].status = Status::wrong;  // its numbers are still there: derive must look at the status
  derive(records);
  EXPECT_DOUBLE_EQ(records[0].speedup.value(), 2.5);
  EXPECT_FALSE(records[2].speedup);
}

TEST(Statistics, NoTimeGivesNoInfinity) {
  std::vector<Record> records = {measured("to", "hugepage", "speedtorch", 0.0),
                                 measured("to", "hugepage", "index_select", 0.0)};
  derive(records);
  EXPECT_FALSE(records[0].gb_per_s);
  EXPECT_FALSE(records[0].speedup);
  records[0] = measured("to", "hugepage", "speedtorch", 0.004);
  derive(records);
  EXPECT_TRUE(records[0].gb_per_s);
  EXPECT_FALSE(records[0].speedup) << "of a time that the clock took for none";
}

TEST(Statistics, NewMethodsGetRatiosByTheirColumn) {
  std::vector<Record> records = {measured("to", "hugepage", "ours_of_tomorrow", 0.004),
                                 measured("to", "hugepage", "libtorch_of_tomorrow", 0.010),
                                 measured("to", "hugepage", "copy_of_tomorrow", 0.002)};
  set_role(records[0], Role::ours), set_role(records[1], Role::libtorch), set_role(records[2], Role::ceiling);
  derive(records);
  EXPECT_DOUBLE_EQ(records[0].speedup.value(), 2.5);
  EXPECT_DOUBLE_EQ(records[0].copy_fraction.value(), 0.5);
}

TEST(Statistics, AColumnOutweighsTheNamesOfOlderReports) {
  std::vector<Record> records = {measured("to", "hugepage", "speedtorch", 0.004),
                                 measured("to", "hugepage", "advanced", 0.010)};
  set_role(records[1], Role::peer);
  derive(records);
  EXPECT_FALSE(records[0].speedup);
}

}  // namespace
}  // namespace stbench::reports
