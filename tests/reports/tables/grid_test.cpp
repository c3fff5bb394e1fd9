#include "reports/tables/grid.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

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
