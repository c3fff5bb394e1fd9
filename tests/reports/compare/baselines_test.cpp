#include "reports/compare/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "reports/compare/comparable.h"
#include "reports/error.h"
#include "reports/files/file.h"
#include "reports/files/json.h"
#include "tests/harness/temporary_folder.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

namespace fs = std::filesystem;

Report of_machine(const std::string& model, std::uint64_t seed = 1) {
  Report report = synthetic_run({}, seed);
  report.environment = {{"cpu", {{"model", model}, {"cores_allowed", 2}}},
                        {"memory", {{"total_bytes", 25'000'000'000}}},
                        {"gpu", {{"driver_version", nullptr}}},
                        {"build", {{"compiler", "GNU"}, {"git_revision", "a"}}},
                        {"libtorch", {{"version", "2.11.0"}}}};
  return report;
}

std::vector<std::string> kinds(const Report& one, const Report& other) {
  std::vector<std::string> kinds;
  for (const auto& [kind, text] : differences(one, other)) kinds.push_back(kind);
  return kinds;
}

TEST(Comparable, MachineDriverAndBuildDifferAndTheRevisionDoesNot) {
  const Report one = of_machine("A");
  auto other = one;
  other.environment["build"]["git_revision"] = "b";
  other.environment["memory"]["total_bytes"] = 25'100'000'000;
  other.environment["build"].erase("compiler");  // what one does not say is no difference
  EXPECT_TRUE(differences(one, other).empty());
  other = one;
  other.environment["cpu"]["model"] = "B";
  other.environment["gpu"]["driver_version"] = "580";
  other.environment["libtorch"]["version"] = "2.7.0";
  EXPECT_THAT(kinds(one, other), testing::ElementsAre("machine", "driver", "build"));
  EXPECT_THAT(differences(one, other).front().text, testing::HasSubstr("cpu.model: A; B"));
  other = one;
  other.environment["cpu"]["design"] = "family 25, model 1";
  EXPECT_TRUE(differences(one, other).empty()) << "reports of before 2026-11-27 have no design";
  auto newer = other;
  newer.environment["cpu"]["design"] = "family 26, model 2";
  EXPECT_THAT(differences(other, newer).front().text,
              testing::HasSubstr("cpu.design: family 25, model 1; family 26, model 2"));
  EXPECT_TRUE(differences(one, {}).empty());
  EXPECT_FALSE(names_its_machine({}));
}

class BaselinesTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  Baselines baselines_{folder_.path().string() + "/in/here"};
};

TEST_F(BaselinesTest, NextSaveRemovesFilesOfKilledProcesses) {
  folder_.write("in/here/.main.new-0123456789abcdef/1.json", "{");
  testing::internal::CaptureStderr();
  baselines_.save("main", {synthetic_run({}, 1)});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("removed \".main.new-0123456789abcdef\""));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path() / "in/here"), {}), 1);
}

TEST_F(BaselinesTest, AreReadAsTheyWereSaved) {
  std::vector<Report> reports;
  for (std::uint64_t i = 1; i <= 11; ++i) reports.push_back(of_machine("A", i));
  baselines_.save("main", reports);
  const auto files = baselines_.files("main");
  ASSERT_EQ(files.size(), 11U);
  for (std::size_t i = 0; i < files.size(); ++i)
    EXPECT_EQ(read_file(files[i]), to_json(reports[i])) << files[i];
}

TEST_F(BaselinesTest, AreReplacedWholeAndNothingIsLeft) {
  baselines_.save("main", {of_machine("A", 1), of_machine("A", 2)});
  baselines_.save("main", {of_machine("A", 3)});
  ASSERT_EQ(baselines_.files("main").size(), 1U);
  EXPECT_EQ(read_file(baselines_.files("main").front()), to_json(of_machine("A", 3)));
  const fs::directory_iterator entries(folder_.path().string() + "/in/here");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(BaselinesTest, ALinkAndWhatItNamesAreOne) {
  baselines_.save("main", {of_machine("A")});
  baselines_.save("v1", {of_machine("A")});
  fs::create_directory_symlink("main", folder_.path() / "in/here/link");
  EXPECT_TRUE(baselines_.are_one("main", "main"));
  EXPECT_TRUE(baselines_.are_one("link", "main") && baselines_.are_one("main", "link"));
  EXPECT_TRUE(baselines_.are_one("none", "none"));
  EXPECT_FALSE(baselines_.are_one("main", "v1") || baselines_.are_one("main", "none"));
}

TEST_F(BaselinesTest, AnUnknownNameSaysWhichThereAre) {
  EXPECT_THAT([&] { (void)baselines_.files("main"); },
              testing::ThrowsMessage<ReportError>(testing::HasSubstr("--save-baseline main")));
  baselines_.save("v1", {of_machine("A")});
  EXPECT_THAT([&] { (void)baselines_.files("main"); },
              testing::ThrowsMessage<ReportError>(testing::HasSubstr("(there are: v1)")));
}

TEST_F(BaselinesTest, NamesThatLeadElsewhereAreRefused) {
  for (const char* const name : {"", "..", "../x", "a/b", ".x", "a b", "calibration-x.json", "a\n"}) {
    EXPECT_THROW(baselines_.save(name, {of_machine("A")}), ReportError) << name;
    EXPECT_THROW((void)baselines_.files(name), ReportError) << name;
  }
}

TEST_F(BaselinesTest, ACalibrationIsFoundByItsMachineOnly) {
  for (const char* const model : {"A", "B"}) {
    std::vector<Report> reports;
    for (std::uint64_t i = 1; i <= (model[0] == 'A' ? 4U : 5U); ++i) reports.push_back(of_machine(model, i));
    baselines_.save(calibrate(reports));
  }
  EXPECT_EQ(baselines_.calibration_for(of_machine("A"))->processes, 4U);
  EXPECT_EQ(baselines_.calibration_for(of_machine("B"))->processes, 5U);
  EXPECT_FALSE(baselines_.calibration_for(of_machine("C")));
  EXPECT_THAT(
      baselines_.foreign_calibrations(of_machine("C")),
      testing::UnorderedElementsAre(
          testing::AllOf(testing::StartsWith("calibration-a-2-"), testing::EndsWith(": cpu.model: A; C")),
          testing::AllOf(testing::StartsWith("calibration-b-2-"), testing::EndsWith(": cpu.model: B; C"))));
  EXPECT_EQ(baselines_.foreign_calibrations(of_machine("A")).size(), 1U);
  EXPECT_TRUE(baselines_.foreign_calibrations({}).empty());  // a CSV names no machine
  EXPECT_FALSE(baselines_.calibration_for({}));
}

TEST_F(BaselinesTest, ACalibrationOfTheProcessorsDesignIsPreferredToOneOfItsName) {
  const auto save = [&](const char* design, std::uint64_t processes) {
    std::vector<Report> reports;
    for (std::uint64_t i = 1; i <= processes; ++i) {
      reports.push_back(of_machine("A", i));
      if (design != nullptr) reports.back().environment["cpu"]["design"] = design;
    }
    baselines_.save(calibrate(reports));
    return reports.front();
  };
  const auto old = save(nullptr, 3);
  EXPECT_EQ(baselines_.calibration_for(old)->processes, 3U);
  const auto of_25 = save("family 25, model 1", 4), of_26 = save("family 26, model 2", 5);
  EXPECT_EQ(baselines_.calibration_for(of_25)->processes, 4U);
  EXPECT_EQ(baselines_.calibration_for(of_26)->processes, 5U);
  EXPECT_EQ(baselines_.calibration_for(old)->processes, 3U);
}

TEST(Calibration, SurvivesItsFileAndCountsItsPairs) {
  const auto calibration = calibrate(synthetic_runs({}, 5, 6));
  EXPECT_EQ(calibration.false_alarms.pairs, 15U);
  EXPECT_EQ(calibration.false_alarms.rows, 15U * 48U);
  EXPECT_LE(calibration.false_alarms.alarmed_pairs, 2U);
  EXPECT_EQ(calibration.cases.size(), 48U);
  const auto again = calibration_from_json(to_json(calibration), "t");
  EXPECT_EQ(to_json(again), to_json(calibration));
  EXPECT_EQ(again.cases[2].id, calibration.cases[2].id);
  EXPECT_EQ(again.cases[2].ceiling, calibration.cases[2].ceiling);
  EXPECT_FALSE(again.cases[1].ceiling);  // of a ceiling there is only the time
}

// One process of eight is off in half of its rows, by so much that the spread of the others tells: each pair
// with it alarms.
TEST(Calibration, APairIsJudgedByTheSpreadOfTheOthers) {
  SyntheticMachine quiet;
  quiet.drift = 0.01, quiet.of_cell = 0.002, quiet.of_row = 0.002, quiet.noise = 0.002;
  auto reports = synthetic_runs(quiet, 5, 7);
  reports.push_back(synthetic_run(quiet, 77, [](int cell) { return cell % 2 == 0 ? 1.5 : 1.0; }));
  const auto alarms = calibrate(reports).false_alarms;
  EXPECT_EQ(alarms.pairs, 28U);
  EXPECT_EQ(alarms.alarmed_pairs, 7U);
  EXPECT_EQ(alarms.alarmed_rows, 7U * 6U);
}

TEST(Calibration, RefusesFilesThatAreNoCalibration) {
  EXPECT_THROW(calibrate(synthetic_runs({}, 5, 2)), ReportError);
  for (const char* const text :
       {"{}", "[]", R"({"calibration_schema": "2.0"})", R"({"calibration_schema": 1})", "{", ""}) {
    EXPECT_THROW(calibration_from_json(text, "t"), ReportError) << text;
  }
}

}  // namespace
}  // namespace stbench::reports
