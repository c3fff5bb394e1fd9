#include "reports/tables/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "reports/statistics/statistics.h"
#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

/// On one line, for the wrapping is style_test's business.
std::string answer_line(const Report& report) {
  std::string text = answer(report);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

TEST(Answer, SaysWhereToKeepTheTableAndWhatItGains) {
  Report report = sample_report();
  report.records.push_back(measured("sum", "hugepage", "speedtorch", 0.005));
  derive(report.records);
  EXPECT_EQ(
      answer_line(report),
      "Keep such a table (131,072 of 1,000,000 × 128 float32 rows (67.1 MB), unique int64 indices) here in "
      "hugepage: to 33.6 GB/s (62% of the ceiling), from 22.4 GB/s (62% of the ceiling), sum 13.4 GB/s (cpu, "
      "2 "
      "cores). Our table in hugepage against LibTorch's best in libtorch: to 2.5× faster (95% interval 2.50 "
      "to "
      "2.50); from 2.5× faster (95% interval 2.50 to 2.50). ");
}

TEST(Answer, NamesEachPlacementThatIsFastestSomewhere) {
  Report report;
  report.records = {
      measured("to", "pageable", "speedtorch", 0.001), measured("to", "hugepage", "speedtorch", 0.002),
      measured("from", "hugepage", "speedtorch", 0.002), measured("from", "pageable", "speedtorch", 0.004)};
  derive(report.records);
  const std::string text = answer_line(report);
  EXPECT_NE(text.find("here in pageable: to 67.1 GB/s; in hugepage: from 33.6 GB/s"), std::string::npos)
      << text;
  EXPECT_NE(text.find("was not measured"), std::string::npos) << text;
}

TEST(Answer, TakesTheIntervalOfTheRoundsRatios) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.001),
                    measured("to", "libtorch", "index_select", 0.002)};
  std::reverse(report.records[0].samples_s.begin(), report.records[0].samples_s.end());
  const auto interval = ratio_interval(report.records[1].samples_s, report.records[0].samples_s).value();
  EXPECT_LT(interval.low, 1.9);
  EXPECT_NE(answer_line(report).find("(95% interval 1.85 to 2.17)"), std::string::npos)
      << answer_line(report);
  Report apart = report;
  apart.records[0].more.back().second = std::int64_t{1};  // another group: no common rounds
  EXPECT_EQ(answer_line(apart).find("interval"), std::string::npos);
  report.records[0].samples_s.pop_back();
  EXPECT_EQ(answer_line(report).find("interval"), std::string::npos)
      << "rounds that do not pair up have none";
}

TEST(Answer, PrefersTheDeviceAndLeavesOutWhatIsWrong) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.001),
                    measured("to", "pinned", "speedtorch", 0.002),
                    measured("to", "device", "speedtorch", 0.0001)};
  report.records[1].id.device = report.records[2].id.device = "cuda:0";
  report.records[2].status = Status::wrong;
  derive(report.records);
  const std::string text = answer_line(report);
  EXPECT_NE(text.find("here in pinned: to 33.6 GB/s (cuda:0, 2 cores)"), std::string::npos) << text;
}

TEST(Answer, SaysNothingWithoutARowOfOurs) {
  Report report;
  report.records = {measured("to", "hugepage", "index_select", 0.001),
                    measured("round_trip", "hugepage", "speedtorch", 0.001)};
  EXPECT_EQ(answer(report), "");
}

}  // namespace
}  // namespace stbench::reports
