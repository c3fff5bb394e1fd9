#include "reports/number.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>

namespace stbench::reports {
namespace {

TEST(Number, RealsComeBackToTheBitAndAreNoIntegers) {
  std::mt19937_64 bits(7);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<double>(bits());
    const std::string text = number_text(value);
    if (text.empty()) continue;  // not finite: the next test's business
    ASSERT_EQ(std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)),
              std::bit_cast<std::uint64_t>(value));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(real_from(text).value()), std::bit_cast<std::uint64_t>(value))
        << text;
    ASSERT_FALSE(integer_from(text)) << text;
  }
}

TEST(Number, WritesTheShortestDigits) {
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(3.0), "3.0");
  EXPECT_EQ(number_text(-0.0), "-0.0");
  EXPECT_EQ(number_text(5e-324), "5e-324");
  EXPECT_EQ(number_text(std::int64_t{-7}), "-7");
}

TEST(Number, WritesNothingForWhatIsNotFinite) {
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "");
}

TEST(Number, ReadsWholeTextsOnly) {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "1e400", "inf", "nan", "-nan", "1,5"}) {
    EXPECT_FALSE(real_from(text)) << text;
    EXPECT_FALSE(integer_from(text)) << text;
  }
  EXPECT_EQ(integer_from("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(integer_from("9223372036854775808"));
  EXPECT_EQ(real_from("9223372036854775808"), 9223372036854775808.0);
}

}  // namespace
}  // namespace stbench::reports
