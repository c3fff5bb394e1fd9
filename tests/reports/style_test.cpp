#include "reports/style.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/reports/sample_report.h"

namespace stbench::reports {
namespace {

TEST(Style, ColourOnlyWhenAsked) {
  EXPECT_EQ(painted("x", Paint::bad, Style::plain), "x");
  EXPECT_EQ(painted("x", Paint::none, Style::colour), "x");
  const std::string red = painted("x", Paint::bad, Style::colour);
  EXPECT_NE(red, "x");
  EXPECT_EQ(without_colour(red), "x");
}

TEST(Style, WidthCountsCodePoints) {
  EXPECT_EQ(display_width("2.1×"), 4U);
  EXPECT_EQ(display_width("±1%"), 3U);
  EXPECT_EQ(display_width(""), 0U);
}

TEST(Style, ShortensAtCodePoints) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("×××××××", 6), "×××...");
  EXPECT_EQ(shortened("abcdefg", 2), "..");
  EXPECT_EQ(shortened("abcdefg", 0), "");
}

TEST(Style, OneLineHasNoControlCharacters) {
  EXPECT_EQ(one_line("a\nb\r\tc\033[31m\x7F"), "a b  c [31m ");
  EXPECT_EQ(one_line("\xFF×"), "\xEF\xBF\xBD×");
}

TEST(Style, WrapsAtBlanksAndIndents) {
  EXPECT_EQ(wrapped("one two three", 8, 2), (std::vector<std::string>{"one two", "  three"}));
  EXPECT_EQ(wrapped("abcdefghij", 4, 1), (std::vector<std::string>{"abcd", " efg", " hij"}));
  EXPECT_EQ(wrapped("", 10, 2), (std::vector<std::string>{""}));
  EXPECT_EQ(wrapped("exact fit", 9, 2), (std::vector<std::string>{"exact fit"}));
  for (const std::string& line : wrapped(std::string(500, 'x') + " ×× " + std::string(90, 'y'), 40, 6)) {
    EXPECT_LE(display_width(line), 40U);
  }
}

TEST(Style, MarkdownTakesNoTextForMarkup) {
  EXPECT_EQ(escaped_markdown("1.5× (67.1 MB), 'a'"), "1.5× (67.1 MB), 'a'");
  EXPECT_EQ(escaped_markdown("a|b *c* _d_ `e` <i> [f](g) #h"),
            "a\\|b \\*c\\* \\_d\\_ \\`e\\` \\<i\\> \\[f\\](g) \\#h");
  EXPECT_EQ(escaped_markdown("@me http://x www.y"), "(at)me http:\\/\\/x www\\.y");
  const Style markdown{false, 10, true};
  EXPECT_EQ(painted("a b", Paint::bold, markdown), "**a b**");
  EXPECT_EQ(painted("a", Paint::bad, markdown), "a");
  EXPECT_EQ(lines_of("  one two three four", 4, Paint::none, markdown), "one two three four\n\n");
}

TEST(Style, GroupsThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1'000'000), "1,000,000");
  EXPECT_EQ(grouped(-12'345), "-12,345");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Style, SignificantDigits) {
  EXPECT_EQ(significant(8.7, 4), "8.700");
  EXPECT_EQ(significant(9.9996, 4), "10.00");
  EXPECT_EQ(significant(0.0007, 4), "0.0007000");
  EXPECT_EQ(significant(1234.4, 4), "1234");
  EXPECT_EQ(significant(123456, 3), "123000");
  EXPECT_EQ(significant(0, 4), "0");
  EXPECT_EQ(significant(-2.5, 2), "-2.5");
}

TEST(Style, RatiosInWords) {
  EXPECT_EQ(ratio_text(6.214), "6.2×");
  EXPECT_EQ(ratio_text(9.97), "10×");
  EXPECT_EQ(ratio_text(409.9), "410×");
  EXPECT_EQ(faster_text(2.1), "2.1× faster");
  EXPECT_EQ(faster_text(0.5), "2.0× slower");
  EXPECT_EQ(faster_text(1.04), "1.04× faster");
  EXPECT_EQ(faster_text(1.001), "as fast");
  EXPECT_EQ(faster_text(0.999), "as fast");
}

TEST(Style, BytesInPowersOfAThousand) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(67'108'864), "67.1 MB");
  EXPECT_EQ(bytes_text(5'120'000'000), "5.12 GB");
}

}  // namespace
}  // namespace stbench::reports
