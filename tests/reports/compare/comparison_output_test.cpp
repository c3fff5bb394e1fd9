#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "reports/compare/comparison_files.h"
#include "reports/compare/comparison_table.h"
#include "reports/files/csv_reader.h"
#include "reports/style.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

constexpr const char* kHostile =
    "=cmd|'/C calc'!A0 | <script>alert(1)</script> @someone [x](http://y) `z` \x1b[2J\xC2\x9B\n# h";

Comparison hostile() {
  Comparison comparison;
  ComparedCase compared;
  compared.id = {"transfer", "to", "hugepage", kHostile, "cpu", "float32", "int64", "unique", 1000, 8, 16, 2};
  compared.id.axes = {{kHostile, kHostile}};
  compared.verdict = Verdict::missing;
  compared.note = kHostile;
  comparison.cases = {compared, compared};
  comparison.cases[1].id.dim = 16;
  comparison.notes = {kHostile};
  return comparison;
}

Comparison planted() {
  SyntheticMachine machine;
  machine.of_row = 0.002, machine.noise = 0.005;
  return compare(synthetic_runs(machine, 1, 5),
                 synthetic_runs(machine, 2, 5, [](int cell) { return cell == 0 ? 1.2 : 1; }));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(ComparisonTable, SaysHowManyAndShowsTheWorstFirst) {
  const auto text = comparison_table(planted(), {}, Style::plain);
  EXPECT_THAT(text, testing::StartsWith("48 cases: 1 slower, "));
  EXPECT_THAT(text, testing::HasSubstr("\nslower\n"));
  EXPECT_THAT(text, testing::ContainsRegex("speedtorch .*\\+[0-9.]+%.* to .*±"));
  EXPECT_THAT(text, testing::HasSubstr("rows are same; --all shows them"));
  for (const auto& line : lines_of(text)) EXPECT_LE(display_width(line), kScreenWidth) << line;
  const auto all = comparison_table(planted(), {.all = true}, Style::plain);
  EXPECT_GT(lines_of(all).size(), lines_of(text).size() + 30);
}

TEST(ComparisonTable, BeginsWithTheConclusionAndSaysWithinWhatRowsAreTheSame) {
  const auto text = comparison_table(planted(), {.conclusion = "Slower: one."}, Style::plain);
  EXPECT_THAT(text, testing::StartsWith("Slower: one.\n48 cases: 1 slower, "));
  EXPECT_THAT(text, testing::ContainsRegex("[0-9]+ same within ±[0-9.]+%"));
}

TEST(ComparisonTable, NothingInAReportMovesTheCursor) {
  for (const Style style : {Style::plain, Style::colour}) {
    const auto text = comparison_table(hostile(), {}, style);
    EXPECT_EQ(text.find("\x1b[2J"), std::string::npos);
    EXPECT_EQ(text.find("\xC2\x9B"), std::string::npos);
  }
}

TEST(ComparisonMarkdown, IsATableForPeople) {
  const auto text = comparison_markdown(planted(), {});
  EXPECT_THAT(text, testing::StartsWith("48 cases: 1 slower"));
  EXPECT_THAT(text, testing::HasSubstr("| case | BASE | NEW |"));
}

// Text is text: no cell ends early, no tag, link, mention, code, heading or formula begins.
TEST(ComparisonMarkdown, NothingInAReportIsMoreThanText) {
  for (const auto& line : lines_of(comparison_markdown(hostile(), {}))) {
    if (line.find("cmd") == std::string::npos) continue;
    for (const char* const bad : {"<", ">", "@", "`", "[", "]", "://", "\\", "!"}) {
      EXPECT_EQ(line.find(bad), std::string::npos) << bad << " in " << line;
    }
    if (!line.starts_with("|")) continue;
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 8) << line;
  }
}

TEST(ComparisonCsv, CellsThatASpreadsheetWouldRunAreGuarded) {
  int cells = 0;
  read_csv_rows(comparison_csv(hostile()), "t", [&](const CsvRow& row) {
    for (const CsvCell& cell : row.cells) {
      if (cell.text.empty()) continue;
      ++cells;
      EXPECT_EQ(std::string("=+@\t\r").find(cell.text.front()), std::string::npos) << cell.text;
    }
  });
  EXPECT_GT(cells, 30);
}

TEST(ComparisonCsv, LineEndsInANoteBeginNoLine) {
  ComparedCase compared;
  compared.id = {"transfer", "to", "hugepage", "copy", "cpu", "float32", "int64", "unique", 1000, 8, 16, 2};
  compared.note = "failed: first\r\nsecond\nthird";
  Comparison comparison;
  comparison.cases = {compared};
  const auto lines = lines_of(comparison_csv(comparison));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[1], testing::HasSubstr("failed: first  second third"));
}

TEST(ComparisonCsv, ARowACaseAndNumbersAsNumbers) {
  const auto comparison = planted();
  std::vector<CsvRow> rows;
  read_csv_rows(comparison_csv(comparison), "t", [&](CsvRow row) { rows.push_back(std::move(row)); });
  ASSERT_EQ(rows.size(), 49U);
  EXPECT_EQ(rows[0].cells[12].text, "verdict");
  for (const CsvRow& row : rows) EXPECT_EQ(row.cells.size(), rows[0].cells.size());
}

TEST(ComparisonJson, SaysTheSame) {
  const auto comparison = planted();
  const auto json = nlohmann::json::parse(comparison_json(comparison, {}, conclude(comparison, {}, false)));
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["verdicts"]["slower"], 1);
  ASSERT_EQ(json["cases"].size(), comparison.cases.size());
  for (std::size_t i = 0; i < comparison.cases.size(); ++i) {
    EXPECT_EQ(json["cases"][i]["verdict"], std::string(to_string(comparison.cases[i].verdict)));
    EXPECT_EQ(json["cases"][i]["change"], *comparison.cases[i].change);
  }
  EXPECT_NO_THROW(nlohmann::json::parse(comparison_json(hostile(), {}, conclude(hostile(), {}, false))));
}

}  // namespace
}  // namespace stbench::reports
