#include "reports/tables/answer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
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
      "hugepage: to 33.6 GB/s (62% of the ceiling), from 22.4 GB/s (62% of the ceiling) (cpu, 2 cores). Our "
      "table in hugepage against LibTorch's best in libtorch: to 2.50× faster (95% interval 2.50 to 2.50): "
      "1.2× is the kernel, 2.0× the pages; from is not decided, 2.50× to 2.50× of unstable rows. Measure on "
      "a "
      "quiet machine or with more --samples. ");
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
}

/// 10.83 between 10.73 and 10.91 was "11× faster".
TEST(Answer, ShowsAGainInsideItsInterval) {
  for (const double factor : {1.83, 10.83, 12.34, 123.4, 1 / 10.83}) {
    Report report;
    report.records = {measured("to", "hugepage", "speedtorch", 0.001),
                      measured("to", "libtorch", "index_select", 0.001 * factor)};
    const std::string text = answer_line(report);
    double middle = 0, low = 0, high = 0;
    const std::size_t at = text.find("in libtorch: to ");
    ASSERT_NE(at, std::string::npos) << text;
    ASSERT_EQ(std::sscanf(text.c_str() + at, "in libtorch: to %lf× %*s (95%% interval %lf to %lf)", &middle,
                          &low, &high),
              3)
        << text;
    EXPECT_LE(low, middle) << text;
    EXPECT_GE(high, middle) << text;
    EXPECT_NEAR(middle, std::max(factor, 1 / factor), 0.005) << text;
  }
}

/// Rounds that do not pair up have only the intervals of the medians, here 0.97 to 1.03 of each.
TEST(Answer, TakesTheIntervalsOfTheMediansOfOtherRounds) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.001),
                    measured("to", "libtorch", "index_select", 0.002)};
  const Record& ours = report.records[0];
  const Record& theirs = report.records[1];
  const std::string expected =
      fmt::format("to 2.00× faster (the medians' intervals allow {:.2f} to {:.2f})",
                  *theirs.ci_low_s / *ours.ci_high_s, *theirs.ci_high_s / *ours.ci_low_s);
  EXPECT_EQ(answer_line(report).find(expected), std::string::npos);
  report.records[0].more.back().second = std::int64_t{1};  // another group
  EXPECT_NE(answer_line(report).find(expected), std::string::npos) << answer_line(report);
}

/// All rounds but one are 1.2 times faster, and the ratio of the medians says 0.6.
TEST(Answer, TakesTheMedianOfTheRatiosNotTheRatioOfTheMedians) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.001),
                    measured("to", "libtorch", "index_select", 0.002)};
  auto &ours = report.records[0].samples_s, &theirs = report.records[1].samples_s;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ours[i] = i < 5 ? 0.5 : 1;
    theirs[i] = i == 5 ? 0.6 : 1.2 * ours[i];
  }
  summarise(report.records[0]), summarise(report.records[1]);
  ASSERT_DOUBLE_EQ(*report.records[1].median_s / *report.records[0].median_s, 0.6);
  EXPECT_NE(answer_line(report).find("to 1.20× faster (95% interval 1.20 to 1.20)"), std::string::npos)
      << answer_line(report);
}

TEST(Answer, DecidesNothingFromUnstableRows) {
  Report report = sample_report();
  for (Record& record : report.records) {
    if (record.status == Status::ok) record.status = Status::unstable;
  }
  const std::string text = answer_line(report);
  EXPECT_NE(text.find("Where to keep such a table"), std::string::npos) << text;
  EXPECT_NE(text.find("is not decided: to ~33.6 GB/s (62% of the ceiling) in hugepage, "), std::string::npos)
      << text;
  EXPECT_NE(text.find("in libtorch: to is not decided, 2.50× to 2.50× of unstable rows; from is not decided"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("faster"), std::string::npos) << text;
  EXPECT_NE(text.find("Measure on a quiet machine or with more --samples."), std::string::npos) << text;
}

TEST(Answer, DecidesNothingFromASingleUnstableRow) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.002)};
  report.records[0].status = Status::unstable;
  derive(report.records);
  EXPECT_NE(answer_line(report).find("is not decided: to ~33.6 GB/s in hugepage, unstable"),
            std::string::npos)
      << answer_line(report);
}

/// The second is beaten; the third, whose interval is wide, may be as fast.
TEST(Answer, NamesThePlacementThatMayBeAsFast) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.001),
                    measured("to", "pageable", "speedtorch", 0.002),
                    measured("to", "mapped", "speedtorch", 0.003)};
  for (Record& record : report.records) record.samples_s.clear();
  report.records[2].ci_low_s = 0.0005;
  derive(report.records);
  EXPECT_NE(answer_line(report).find("in hugepage, to 22.4 GB/s in mapped"), std::string::npos)
      << answer_line(report);
}

TEST(Answer, DecidesNothingWhereIntervalsOverlap) {
  Report report;
  report.records = {
      measured("to", "hugepage", "speedtorch", 0.00100), measured("to", "pageable", "speedtorch", 0.00101),
      measured("to", "hugepage", "index_select", 0.00100), measured("to", "libtorch", "index_select", 0.002)};
  report.records[1].more.back().second = std::int64_t{1};
  derive(report.records);
  std::reverse(report.records[0].samples_s.begin(), report.records[0].samples_s.end());
  const std::string text = answer_line(report);
  EXPECT_NE(text.find("is not decided: to 67.1 GB/s in hugepage, to 66.4 GB/s in pageable (cpu"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("to 2.00× faster (95% interval 1.85 to 2.17); the kernel's part is not decided: 0.9"),
            std::string::npos)
      << text;
  report.records[3] = measured("to", "libtorch", "index_select", 0.001);
  EXPECT_NE(answer_line(report).find("in libtorch: to is not decided, 0.9"), std::string::npos)
      << answer_line(report);
}

TEST(Answer, SaysThatThePagesWereNotTakenApart) {
  Report report;
  report.records = {measured("to", "hugepage", "speedtorch", 0.001),
                    measured("to", "libtorch", "index_select", 0.002)};
  EXPECT_NE(answer_line(report).find("; LibTorch in hugepage was not measured"), std::string::npos)
      << answer_line(report);
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
