#include "reports/compare/metric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "reports/statistics/statistics.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

/// A cell of our method and its ceiling, as a CSV has it: medians and intervals, no samples.
Report without_samples() {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.002),
                    measured("to", "hugepage", "copy", 0.001)};
  auto &ours = report.records[0], &ceiling = report.records[1];
  for (Record& record : report.records) record.samples_s.clear();
  ours.median_s = 2, ours.ci_low_s = 1.8, ours.ci_high_s = 2.6;
  ceiling.median_s = 1, ceiling.ci_low_s = 0.9, ceiling.ci_high_s = 1.1;
  return report;
}

Measured of_ours(const Report& report) {
  const std::vector<Report> reports{report};
  const auto cases = join_cases(reports, reports);
  const auto found = measured_cases(cases, "auto");
  for (std::size_t k = 0; k < cases.size(); ++k) {
    if (found[k].metric == "ceiling") return found[k].base.front();
  }
  ADD_FAILURE() << "no case is measured against its ceiling";
  return {};
}

TEST(Metric, AnIntervalOfAQuotientIsMadeOfBothParts) {
  const auto ours = of_ours(without_samples());
  EXPECT_DOUBLE_EQ(ours.value, std::log(2.0));
  ASSERT_TRUE(ours.interval);
  EXPECT_NEAR(ours.interval->low, std::log(2.0) - std::hypot(std::log(2 / 1.8), std::log(1.1)), 1e-12);
  EXPECT_NEAR(ours.interval->high, std::log(2.0) + std::hypot(std::log(2.6 / 2), std::log(1 / 0.9)), 1e-12);
}

TEST(Metric, AnIntervalHasTwoEndsAboveZero) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const auto& [low, high] : {std::pair{0.0, 2.6}, {1.8, infinite}, {-1.8, 2.6}, {1.8, -2.6}}) {
    auto report = without_samples();
    report.records[0].ci_low_s = low, report.records[0].ci_high_s = high;
    EXPECT_FALSE(of_ours(report).interval) << low << " to " << high;
  }
}

// Rounds are those of the group. Where a report does not say which group a case was in, equal numbers of
// samples are taken for the same rounds; of different groups each sample stands against the ceiling's median.
TEST(Metric, RoundsArePairedWithinAGroup) {
  auto report = without_samples();
  auto &ours = report.records[0], &ceiling = report.records[1];
  ours.samples_s = {2, 6, 2.5}, ceiling.samples_s = {1, 3, 1.25};
  ours.samples = ceiling.samples = 3;
  for (Record& record : report.records) summarise(record);
  const auto spread = [](const Measured& measured) {
    return measured.samples.at(1) - measured.samples.at(0);
  };
  const auto set_groups = [&](std::int64_t of_ours, std::int64_t of_ceiling) {
    for (Record& record : report.records)
      std::erase_if(record.more, [](const auto& cell) { return cell.first == "group"; });
    if (of_ours > 0) ours.more.emplace_back("group", of_ours);
    if (of_ceiling > 0) ceiling.more.emplace_back("group", of_ceiling);
  };
  set_groups(0, 0);
  EXPECT_NEAR(spread(of_ours(report)), 0, 1e-12);
  set_groups(1, 0);
  EXPECT_NEAR(spread(of_ours(report)), 0, 1e-12);
  set_groups(1, 1);
  EXPECT_NEAR(spread(of_ours(report)), 0, 1e-12);
  set_groups(1, 2);
  EXPECT_NEAR(spread(of_ours(report)), std::log(3.0), 1e-12);
}

}  // namespace
}  // namespace stbench::reports
