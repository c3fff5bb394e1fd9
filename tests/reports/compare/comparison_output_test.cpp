#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "reports/compare/comparison_files.h"
#include "reports/compare/comparison_table.h"
#include "reports/compare/side_text.h"
#include "reports/files/csv_reader.h"
#include "reports/style.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

constexpr const char* kHostile =
    "=cmd|'/C calc'!A0 | <script>alert(1)</script> @someone [x](http://y) www.z `z` &lt; \x1b[2J\xC2\x9B\n# "
    "h";

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

TEST(ComparisonTable, KeepsIntervalAndLimitOnANarrowScreen) {
  const auto heading = [comparison = planted()](std::size_t width) {
    for (const auto& line : lines_of(comparison_table(comparison, {}, {false, width, false})))
      if (line.starts_with("  case ")) return std::regex_replace(line, std::regex("  +"), "|");
    return std::string();
  };
  EXPECT_EQ(heading(1000), "|case|BASE|NEW|change|95 % interval|limit");
  std::set<std::string> all;
  for (std::size_t width = 40; width <= 200; ++width) all.insert(heading(width));
  EXPECT_THAT(all, testing::Contains("|case|change|95 % interval|limit"));
  EXPECT_THAT(all, testing::Contains("|case|NEW|change|95 % interval|limit"));
  EXPECT_THAT(all, testing::Not(testing::Contains("|case|BASE|NEW|change")));
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

TEST(ComparisonMarkdown, BeginsWithTheVerdictAndSaysWhatWasCompared) {
  const auto text = comparison_markdown(
      planted(),
      {.word = "Slower", .conclusion = "Slower: 1 case.", .about = {"BASE: revision ab12", "AMD EPYC"}});
  EXPECT_THAT(text,
              testing::StartsWith("### Slower\n\nSlower: 1 case.\n\n- BASE: revision ab12\n- AMD EPYC\n\n"
                                  "48 cases: 1 slower"));
}

// BASE and NEW are means over the processes, and their quotient is not the change.
TEST(ComparisonMarkdown, HasTheChangeAsItsOnlyStatistic) {
  const auto text = comparison_markdown(planted(), {});
  EXPECT_THAT(text, testing::HasSubstr("| case | change | 95 % interval | limit |\n|---|--:|--:|--:|\n"));
  EXPECT_THAT(text, testing::ContainsRegex(
                        "\\| `[^`|]*speedtorch[^`|]*` \\| \\+[0-9.]+% \\| [^|]* to [^|]*\\| ±[^|]*\\|"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("BASE |")));
}

TEST(ComparisonTable, NamesAnAxisOnlyWhereItIsNotAtItsDefault) {
  Comparison comparison = planted();
  for (ComparedCase& compared : comparison.cases)
    compared.id.axes = {{"cache", "warm"}, {"callers", std::int64_t{2}}};
  comparison.cases[0].id.axes[0].second = "cold";
  const auto text = comparison_markdown(comparison, {.all = true});
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("warm")));
  EXPECT_THAT(text, testing::HasSubstr("cache=cold"));
  EXPECT_THAT(text, testing::HasSubstr("callers=2"));
}

/// Without code and without escaped characters: the rest is markup.
std::string markup_of(const std::string& line) {
  std::string rest;
  bool is_code = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '`') is_code = !is_code;
    if (line[i] == '\\' && (!is_code || line[i + 1] == '|'))
      ++i;
    else if (!is_code && line[i] != '`')
      rest += line[i];
  }
  EXPECT_FALSE(is_code) << line;
  return rest;
}

// Text is text: no cell ends early, no tag, link, mention, code, heading or entity begins.
TEST(ComparisonMarkdown, NothingInAReportIsMoreThanText) {
  const auto text =
      comparison_markdown(hostile(), {.word = kHostile, .conclusion = kHostile, .about = {kHostile}});
  std::size_t hostile_lines = 0;
  for (const auto& line : lines_of(text)) {
    if (line.find("cmd") == std::string::npos) continue;
    ++hostile_lines;
    const std::string markup = markup_of(line);
    for (const char* const bad : {"<", ">", "@", "[", "]", "://", "&", "!", "www."}) {
      EXPECT_EQ(markup.find(bad), std::string::npos) << bad << " in " << line;
    }
    const auto bars = std::count(markup.begin(), markup.end(), '|');
    EXPECT_EQ(bars, line.starts_with("|") ? 3 : 0) << line;
  }
  EXPECT_EQ(hostile_lines, 7U);
}

TEST(ComparisonMarkdown, HasNoEntities) {
  Comparison comparison = hostile();
  comparison.cases[0].note = "a_b | c";
  const auto text = comparison_markdown(comparison, {});
  EXPECT_EQ(text.find("&#"), std::string::npos);
  EXPECT_THAT(text, testing::HasSubstr("a\\_b \\| c"));
}

TEST(SideText, NamesRevisionsDateAndProcesses) {
  Report report;
  report.environment = {{"build", {{"git_revision", "0123456789abcdef"}, {"git_dirty", true}}}};
  report.started_at = "2026-11-24T07:40:11Z";
  Report other = report;
  other.environment["build"] = {{"git_revision", "fedcba9876543210"}, {"git_dirty", false}};
  EXPECT_EQ(side_text("NEW", std::vector{report}),
            "NEW: revision 0123456789ab (changed), 2026-11-24T07:40:11Z, 1 process");
  EXPECT_EQ(side_text("BASE", std::vector{report, other, report}),
            "BASE: revision 0123456789ab (changed) and fedcba987654, 2026-11-24T07:40:11Z, 3 processes");
  EXPECT_EQ(side_text("BASE", std::vector{Report()}), "BASE: 1 process");
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
