#include "reports/compare/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "reports/compare/history_table.h"
#include "reports/error.h"
#include "reports/tables/grid.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int kMerges = 20;
constexpr int kCreeping = 3;  ///< the cell whose speedtorch creeps

SyntheticMachine steady_machine() {
  SyntheticMachine machine;
  machine.drift = 0.01, machine.of_cell = 0.005, machine.of_row = 0.004, machine.noise = 0.015;
  machine.controls = true;
  return machine;
}

SyntheticMachine shaken_machine() {
  SyntheticMachine machine;
  machine.controls = true;
  return machine;
}

std::string start_of(int report) { return "2026-01-" + std::to_string(10 + report) + "T00:00:00Z"; }

/// One report per merge.
/// @param creep of the planted row from merge to merge: 1.01 is 1 %
std::vector<Report> merges(const SyntheticMachine& machine, std::uint64_t seed, double creep,
                           int count = kMerges) {
  std::vector<Report> reports;
  for (int i = 0; i < count; ++i) {
    const double slower = std::pow(creep, i);
    reports.push_back(synthetic_run(machine, seed * 1000 + static_cast<std::uint64_t>(i),
                                    [&](int cell) { return cell == kCreeping ? slower : 1; }));
    reports.back().started_at = start_of(i);
  }
  return reports;
}

bool is_planted(const HistoryRow& row) {
  return row.latest.id.method == "speedtorch" && row.latest.id.dim == 64 * (kCreeping + 1);
}

bool alarms(const History& history) {
  return std::ranges::any_of(history.rows, [](const HistoryRow& row) {
    return row.latest.part == Part::subject && (row.drifts || is_moved(row.latest));
  });
}

TEST(History, SeesACreepOfOnePercentOver20Merges) {
  int seen = 0, others = 0;
  constexpr int kSeries = 20;
  for (int seed = 1; seed <= kSeries; ++seed) {
    const auto found = history(merges(steady_machine(), static_cast<std::uint64_t>(seed), 1.01));
    for (const HistoryRow& row : found.rows) {
      if (!is_planted(row)) {
        others += row.drifts ? 1 : 0;
        continue;
      }
      seen += row.drifts ? 1 : 0;
      EXPECT_NEAR(*row.drift, std::pow(1.01, kMerges - 1) - 1, 0.06);
    }
  }
  EXPECT_EQ(seen, kSeries);
  EXPECT_EQ(others, 0) << "the other rows do not creep";
}

TEST(History, SeesACreepOfTwoPercentOnANoisyMachine) {
  int seen = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    const auto found = history(merges(shaken_machine(), static_cast<std::uint64_t>(seed), 1.02));
    seen += static_cast<int>(std::ranges::count_if(
        found.rows, [](const HistoryRow& row) { return is_planted(row) && row.drifts && *row.drift > 0; }));
  }
  EXPECT_GE(seen, 18);
}

TEST(History, RaisesNoAlarmOverReportsOfTheSameThing) {
  for (const auto& [name, machine, wander] : {std::tuple("quiet", steady_machine(), 0.0),
                                              {"virtual machine", shaken_machine(), 0.0},
                                              {"drift", steady_machine(), 0.06}}) {
    int alarmed = 0, changed = 0;
    for (int seed = 1; seed <= 40; ++seed) {
      auto drifting = machine;
      drifting.wander = wander;
      const auto sides = synthetic_sides(drifting, static_cast<std::uint64_t>(seed), kMerges / 2, false);
      auto reports = sides.base;
      reports.insert(reports.end(), sides.now.begin(), sides.now.end());
      const auto found = history(reports);
      alarmed += alarms(found) ? 1 : 0;
      changed +=
          std::ranges::any_of(found.rows, [](const HistoryRow& row) { return is_moved(row.latest); }) ? 1 : 0;
    }
    EXPECT_LE(alarmed, 1) << name << ": of 40 series at most one in a hundred is expected; " << changed
                          << " by the latest";
  }
}

TEST(History, AStepInTheLatestReportIsAChange) {
  auto reports = merges(steady_machine(), 5, 1);
  reports.back() = synthetic_run(steady_machine(), 99, [](int cell) { return cell == kCreeping ? 1.3 : 1; });
  reports.back().started_at = start_of(kMerges);
  const auto found = history(reports);
  const auto row = std::ranges::find_if(found.rows, is_planted);
  EXPECT_EQ(row->latest.verdict, Verdict::slower);
  EXPECT_NEAR(*row->latest.change, 0.3, 0.05);
  const auto conclusion = conclude(found, {}, false);
  EXPECT_EQ(conclusion.exit_status, 1);
}

TEST(History, ADriftOfTheControlsIsTheMachines) {
  const auto machine = steady_machine();
  std::vector<Report> reports;
  for (int i = 0; i < kMerges; ++i) {
    const auto slower = [&](int, int method) { return method >= 2 ? 0.01 * i : 0; };  // all but the ceilings
    reports.push_back(synthetic_run(
        machine, 700 + static_cast<std::uint64_t>(i), [](int) { return 1.0; }, slower));
    reports.back().started_at = start_of(i);
  }
  const auto found = history(reports);
  EXPECT_TRUE(found.control_drifts);
  EXPECT_FALSE(std::ranges::any_of(
      found.rows, [](const HistoryRow& row) { return row.drifts && row.latest.part == Part::subject; }));
  const auto conclusion = conclude(found, {}, false);
  EXPECT_EQ(conclusion.exit_status, 4);
  EXPECT_THAT(conclusion.text, HasSubstr("the machine changed"));
}

TEST(History, ShortSeriesDriftNowhereAndOneReportIsNone) {
  const auto found = history(merges(steady_machine(), 1, 1.5, static_cast<int>(kShortestHistory) - 1));
  for (const HistoryRow& row : found.rows) EXPECT_FALSE(row.drift.has_value());
  EXPECT_THROW((void)history(merges(steady_machine(), 1, 1, 1)), ReportError);
  EXPECT_THROW((void)history({}), ReportError);
}

TEST(History, IsSortedByStart) {
  auto reports = merges(steady_machine(), 1, 1, 5);
  std::ranges::reverse(reports);
  sort_by_start(reports);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(reports[static_cast<std::size_t>(i)].started_at, start_of(i));
  reports[0].started_at.clear();
  std::ranges::reverse(reports);
  sort_by_start(reports);
  EXPECT_EQ(reports.front().started_at, start_of(4)) << "who does not say keeps its place";
}

TEST(History, ValuesStandAtTheirReports) {
  auto reports = merges(steady_machine(), 1, 1, 9);
  std::erase_if(reports[4].records,
                [](const Record& record) { return record.id.dim == 64 * (kCreeping + 1); });
  const auto found = history(reports);
  const auto row = std::ranges::find_if(found.rows, is_planted);
  ASSERT_EQ(row->values.size(), 9U);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(row->values[i].has_value(), i != 4);
  EXPECT_EQ(row->latest.metric, "time") << "a report lacks the ceiling";
}

TEST(HistoryTable, BarsRiseWithTheValues) {
  EXPECT_EQ(bars({1, 1.5, 2}, 9), "▁▅█");
  EXPECT_EQ(bars({1, std::nullopt, 2}, 9), "▁ █");
  EXPECT_EQ(bars({1, 1.01, 1}, 9), "▁▂▁") << "a change of 1 % is not the whole height";
  EXPECT_EQ(bars({1, 1, 2, 2, 3, 3}, 3), "▁▅█");
  EXPECT_EQ(bars({std::nullopt}, 3), "");
}

TEST(HistoryTable, HasALinePerCaseTheMarkedOnesFirst) {
  const auto reports = merges(steady_machine(), 1, 1.01);
  const auto found = history(reports);
  const std::string text = history_table(found, reports, Style::plain);
  std::istringstream lines(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) {
    all.push_back(line);
    EXPECT_LE(display_width(line), kScreenWidth) << line;
  }
  EXPECT_EQ(all[0], "20 reports, 2026-01-10 to 2026-01-29");
  EXPECT_THAT(text, HasSubstr("  case "));
  const auto first_row =
      std::ranges::find_if(all, [](const std::string& line) { return line.starts_with("  case "); }) + 1;
  EXPECT_THAT(*first_row, HasSubstr("speedtorch")) << text;
  EXPECT_THAT(*first_row, HasSubstr("×256"));
  EXPECT_THAT(*first_row, HasSubstr("▁"));
  EXPECT_TRUE(first_row->ends_with("% !")) << *first_row;
  EXPECT_EQ(
      std::ranges::count_if(all, [](const std::string& line) { return line.find("▁") != std::string::npos; }),
      std::ssize(found.rows));
  const auto conclusion = conclude(found, {}, false);
  EXPECT_THAT(conclusion.text, testing::StartsWith("1 case crept slower over the series, by +"));
  EXPECT_EQ(conclusion.exit_status, 1);
}

TEST(HistoryTable, OtavaGetsNumbersInEachCell) {
  auto reports = merges(steady_machine(), 1, 1, 3);
  reports[0].environment["build"]["git_revision"] = "abc";
  std::erase_if(reports[1].records, [](const Record& record) { return record.id.dim == 64; });
  const auto found = history(reports);
  const auto id_of = [](const Identity& id) { return id.method + ", " + std::to_string(id.dim); };
  const auto table = otava_table(found, reports, id_of);
  EXPECT_THAT(table.left_out, Contains("speedtorch, 64"));
  std::istringstream lines(table.csv);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_TRUE(all[0].starts_with("time,commit,\"copy, 128\"")) << all[0];
  EXPECT_TRUE(all[1].starts_with("2026-01-10T00:00:00Z,abc,0.00")) << all[1];
  EXPECT_TRUE(all[2].starts_with("2026-01-11T00:00:00Z,unknown,")) << all[2];
  EXPECT_THAT(table.csv, Not(HasSubstr(",,")));
  reports[2].started_at.clear();
  EXPECT_THROW((void)otava_table(found, reports, id_of), ReportError);
}

}  // namespace
}  // namespace stbench::reports
