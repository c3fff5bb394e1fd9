#include "benchmarks/program/exit_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/harness/message_of.h"

namespace stbench {
namespace {

using reports::Record;
using reports::Report;
using reports::Status;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Record record(Status status, const std::string& method, std::optional<double> gb_per_s = {}) {
  Record record;
  record.id.suite = "transfer";
  record.id.direction = "to";
  record.id.method = method;
  record.status = status;
  record.gb_per_s = gb_per_s;
  return record;
}

Report report_of(std::vector<Record> records) {
  Report report;
  report.records = std::move(records);
  return report;
}

/// Rows of 10 GB/s, with one of this status between two that are ok.
Report report_with(Status status) {
  return report_of({record(Status::ok, "copy", 10), record(status, "other"), record(Status::ok, "copy", 10)});
}

std::vector<Expectation> expected(const std::vector<std::string>& texts) {
  std::vector<Expectation> expectations;
  for (const std::string& text : texts) expectations.push_back(parse_expectation(text, "--expect"));
  return expectations;
}

const std::vector<Expectation> kMet = expected({"copy>=10"});
const std::vector<Expectation> kUnmet = expected({"copy>=1", "copy>=11"});

TEST(ExitStatus, IsZeroForNumbersThatAreOkUnstableOrWaived) {
  for (const auto status : {Status::ok, Status::unstable, Status::waived}) {
    EXPECT_EQ(exit_status(report_with(status), {}, 0), 0);
    EXPECT_EQ(exit_status(report_with(status), kMet, 0), 0);
  }
  EXPECT_EQ(exit_status({}, {}, 0), 0);
}

TEST(ExitStatus, IsOneForAWrongResultWhateverElseThereIs) {
  auto report = report_with(Status::wrong);
  EXPECT_EQ(exit_status(report, {}, 0), 1);
  report.records.insert(report.records.begin(), record(Status::failed, "other"));
  EXPECT_EQ(exit_status(report, kMet, 0), 1);
}

TEST(ExitStatus, IsTwoForAFailedCaseAlsoWhereAnExpectationIsNotMet) {
  EXPECT_EQ(exit_status(report_with(Status::failed), {}, 0), 2);
  EXPECT_EQ(exit_status(report_with(Status::failed), kUnmet, 0), 2);
}

TEST(ExitStatus, IsOneForAnExpectationThatIsNotMet) {
  EXPECT_EQ(exit_status(report_with(Status::ok), kUnmet, 0), 1);
}

TEST(ExitStatus, NamesTheSignalBeforeAllElse) {
  EXPECT_EQ(exit_status(report_with(Status::wrong), kUnmet, SIGINT), 130);
  EXPECT_EQ(exit_status(report_with(Status::ok), {}, SIGTERM), 143);
}

TEST(ExitStatus, BesideABaselineIsTheComparisonsUnlessAResultIsWrong) {
  const auto good = report_with(Status::ok), wrong = report_with(Status::wrong);
  for (const int compared : {0, 1, 2, 3}) {
    EXPECT_EQ(exit_status_beside_baseline(compared, {good, good}, kMet), compared);
    EXPECT_EQ(exit_status_beside_baseline(compared, {good, wrong, good}, kMet), 2);
  }
}

TEST(ExitStatus, BesideABaselineIsOneIfAnyReportIsBelowAnExpectation) {
  const auto good = report_with(Status::ok);
  auto slow = good;
  slow.records[2].gb_per_s = 9;
  EXPECT_EQ(exit_status_beside_baseline(0, {good, slow, good}, kMet), 1);
  EXPECT_EQ(exit_status_beside_baseline(3, {good, slow, good}, kMet), 3);
  EXPECT_EQ(exit_status_beside_baseline(1, {good, good}, kUnmet), 1);
}

TEST(ExitStatus, OfAProcessIsItsOwnOrItsSignals) {
  EXPECT_EQ(exit_status_of_process(0), 0);
  EXPECT_EQ(exit_status_of_process(3 << 8), 3);
  EXPECT_EQ(exit_status_of_process(SIGKILL), 137);
  EXPECT_TRUE(is_of_signal(exit_status_of_process(SIGHUP)));
  for (const int own : {0, 1, 3, 127, 128}) EXPECT_FALSE(is_of_signal(own)) << own;
}

TEST(Expectations, NameEachRowBelowAndWhatNothingMatches) {
  const auto report = report_of({record(Status::ok, "copy", 9.99), record(Status::ok, "copy", 10),
                                 record(Status::waived, "peer"), record(Status::ok, "speedtorch", 12)});
  EXPECT_THAT(unmet(kMet, report),
              ElementsAre(AllOf(HasSubstr("9.99 GB/s, 10 are expected: "), HasSubstr("copy"))));
  EXPECT_THAT(unmet(expected({"peer>=1"}), report),
              ElementsAre("nothing measured matches --expect 'peer>=1'"));
  EXPECT_THAT(unmet(expected({"speed>=12"}), report), IsEmpty());
  EXPECT_THAT(unmet({}, report), IsEmpty());
}

TEST(Expectations, AreAFilterAndAFloor) {
  const auto parsed = parse_expectation("to>=from->=2.5", "--expect");
  EXPECT_EQ(parsed.text, "to>=from->=2.5");
  EXPECT_TRUE(parsed.filter.is_in("a to>=from- b"));
  EXPECT_FALSE(parsed.filter.is_in("to from"));
  EXPECT_EQ(parsed.gb_per_s, 2.5);
  EXPECT_TRUE(parse_expectation(">=1e-9", "--expect").filter.is_in("whatever there is"));
}

TEST(Expectations, WithoutAFloorAboveZeroAreRefused) {
  const auto refused = [](const std::string& text) {
    return test::message_of([&] { (void)parse_expectation(text, "--expect"); });
  };
  EXPECT_THAT(refused("copy"), HasSubstr("--expect 'copy' has no >="));
  for (const std::string floor : {"", "0", "-1", "x", "nan", "1 "})
    EXPECT_THAT(refused("copy>=" + floor), HasSubstr("'" + floor + "' is no number of GB/s above zero"))
        << floor;
  EXPECT_THAT(refused("(>=1"), HasSubstr("--expect"));
}

}  // namespace
}  // namespace stbench
