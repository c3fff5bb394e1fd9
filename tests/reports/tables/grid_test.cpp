#include "reports/tables/grid.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

TEST(Grid, AlignsWithoutTrailingBlanks) {
  Grid grid({{"who", Align::left}, {"ms"}, {"note", Align::left}});
  grid.add({{"a"}, {"1.5"}, {""}});
  grid.add({{"longer"}, {"12.25"}, {"×"}});
  grid.add({{"b"}, {""}, {"x"}});
  EXPECT_EQ(grid.render(Style::plain),
            "  who        ms  note\n"
            "  a         1.5\n"
            "  longer  12.25  ×\n"
            "  b              x\n");
}

TEST(Grid, AShortRowRunsOnAndWidensNothing) {
  Grid grid({{"who", Align::left}, {"ms"}});
  grid.add({{"a"}, {"1"}});
  grid.add({{"a heading over both of the columns"}});
  EXPECT_EQ(grid.render(Style::plain), "  who  ms\n  a     1\n  a heading over both of the columns\n");
}

TEST(Grid, CutsTheWidestColumnToTheScreen) {
  Grid grid({{"who", Align::left}, {"n"}, {"why", Align::left}});
  grid.add({{std::string(300, 'x')}, {"12345"}, {std::string(200, 'y')}});
  grid.add({{"b"}, {std::string(200, 'z')}});
  std::istringstream lines(grid.render(Style::plain));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), kScreenWidth) << line;
  EXPECT_NE(grid.render(Style::plain).find("12345"), std::string::npos) << "the narrow column stays whole";
}

std::string at_width(const Grid& grid, std::size_t width) { return grid.render({false, width, false}); }

TEST(Grid, DropsTheLeastNeededColumnsThatDoNotFit) {
  Grid grid({{"who", Align::left}, {"ms"}, {"spare", Align::right, 1}, {"sparest", Align::right, 2}});
  grid.add({{"a"}, {"1"}, {"2"}, {"3"}});
  EXPECT_EQ(at_width(grid, 25), "  who  ms  spare  sparest\n  a     1      2        3\n");
  EXPECT_EQ(at_width(grid, 24), "  who  ms  spare\n  a     1      2\n");
  EXPECT_EQ(at_width(grid, 15), "  who  ms\n  a     1\n");
  EXPECT_EQ(at_width(grid, 3), at_width(grid, 15)) << "the others stay, whatever the width";
  EXPECT_EQ(grid.left_out({false, 15, false}), (std::vector<std::string>{"spare", "sparest"}));
  EXPECT_TRUE(grid.left_out({false, 25, false}).empty());
}

TEST(Grid, ShowsNoEmptyColumnUnlessItWasAskedFor) {
  Grid grid({{"who", Align::left}, {"none"}, {"ms"}, {"asked", Align::right, need::asked}});
  grid.add({{"a"}, {""}, {"1"}, {""}});
  grid.add({{"b"}, {"failed"}});
  EXPECT_EQ(at_width(grid, 40), "  who  ms  asked\n  a     1\n  b    failed\n");
  EXPECT_EQ(grid.render({false, 40, true}),
            "\n| who | none | ms | asked |\n|---|--:|--:|--:|\n| a |  | 1 |  |\n| b | failed |  |  |\n\n")
      << "Markdown has a column for each cell of a short row";
}

TEST(Grid, HasMoreColumnsOnAWideScreenOnly) {
  Grid grid({{"who", Align::left}, {"p95", Align::right, need::wide}});
  grid.add({{"a"}, {"1"}});
  EXPECT_EQ(at_width(grid, kScreenWidth), "  who\n  a\n");
  EXPECT_EQ(at_width(grid, kScreenWidth + 1), "  who  p95\n  a      1\n");
  EXPECT_TRUE(grid.left_out({false, kScreenWidth, false}).empty());
}

TEST(Grid, ColourMovesNothing) {
  Grid grid({{"who", Align::left}, {"ms"}});
  grid.add({{"a×", Paint::good}, {"1", Paint::bad}});
  grid.add({{"heading", Paint::bold}});
  EXPECT_NE(grid.render(Style::colour), grid.render(Style::plain));
  EXPECT_EQ(without_colour(grid.render(Style::colour)), grid.render(Style::plain));
}

TEST(Grid, ALineStaysALine) {
  Grid grid({{"who", Align::left}, {"ms"}});
  grid.add({{"a\nb"}, {"\0331"}});
  EXPECT_EQ(grid.render(Style::plain), "  who  ms\n  a b   1\n");
}

}  // namespace
}  // namespace stbench::reports
