#include "harness/numbers.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/harness/message_of.h"

namespace stbench::harness {
namespace {

using stbench::test::message_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseCount, ReadsEachSuffix) {
  EXPECT_EQ(parse_count("0", "--rows"), 0);
  EXPECT_EQ(parse_count("131072", "--rows"), 131072);
  EXPECT_EQ(parse_count("3k", "--rows"), 3'000);
  EXPECT_EQ(parse_count("10M", "--rows"), 10'000'000);
  EXPECT_EQ(parse_count("2G", "--rows"), 2'000'000'000);
  EXPECT_EQ(parse_count("3Ki", "--rows"), 3072);
  EXPECT_EQ(parse_count("2Mi", "--rows"), 2'097'152);
  EXPECT_EQ(parse_count("1Gi", "--rows"), 1'073'741'824);
  EXPECT_EQ(parse_count("9223372036854775807", "--rows"), std::numeric_limits<std::int64_t>::max());
}

class BadCount : public testing::TestWithParam<const char*> {};

TEST_P(BadCount, IsRefusedWithTheOptionAndTheText) {
  const std::string message = message_of([] { parse_count(GetParam(), "--rows"); });
  EXPECT_THAT(message, AllOf(HasSubstr("--rows"), HasSubstr(std::string("'") + GetParam() + "'")));
}

INSTANTIATE_TEST_SUITE_P(Table, BadCount,
                         testing::Values("", "k", "-1", "-0", "+1", "1.5M", "1K", "1m", "1g", "1T", "1kB",
                                         "1 k", " 1", "1 ", "1e6", "0x10", "1,000", "ten", "1ki", "1KI",
                                         "9223372036854775808", "10000000000G", "8589934592Gi",
                                         "99999999999999999999999999M", "1kk"));

TEST(ParseCount, SaysThatANumberIsTooLarge) {
  EXPECT_THAT(message_of([] { parse_count("9300000000G", "--rows"); }), HasSubstr("too large"));
  EXPECT_THAT(message_of([] { parse_count("1x", "--rows"); }), HasSubstr("k M G"));
}

TEST(ParseCounts, ReadsListsAndRanges) {
  EXPECT_THAT(parse_counts("7", "--rows"), ElementsAre(7));
  EXPECT_THAT(parse_counts("1k,2,3M", "--rows"), ElementsAre(1000, 2, 3'000'000));
  EXPECT_THAT(parse_counts("1k:1M:x4", "--rows"), ElementsAre(1000, 4000, 16000, 64000, 256000));
  EXPECT_THAT(parse_counts("1:16:x4", "--rows"), ElementsAre(1, 4, 16));
  EXPECT_THAT(parse_counts("1k:3k:+1k", "--rows"), ElementsAre(1000, 2000, 3000));
  EXPECT_THAT(parse_counts("0:5:+2", "--rows"), ElementsAre(0, 2, 4));
  EXPECT_THAT(parse_counts("5:5:x2", "--rows"), ElementsAre(5));
}

TEST(ParseCounts, KeepsEachValueOnce) {
  EXPECT_THAT(parse_counts("4,1:16:x4,4", "--rows"), ElementsAre(4, 1, 16));
}

TEST(ParseCounts, EndsARangeAtTheLargestNumber) {
  EXPECT_THAT(parse_counts("4G:9223372036854775807:x4G", "--rows"), ElementsAre(4'000'000'000));
  EXPECT_EQ(parse_counts("1:9223372036854775807:x2", "--rows").size(), 63U);
}

class BadCounts : public testing::TestWithParam<const char*> {};

TEST_P(BadCounts, IsRefused) {
  EXPECT_THAT(message_of([] { parse_counts(GetParam(), "--batch"); }), HasSubstr("--batch"));
}

INSTANTIATE_TEST_SUITE_P(Table, BadCounts,
                         testing::Values("", ",", "1,", ",1", "1,,2", "1:2", "1:2:", "1:2:3", "1:2:*2",
                                         "2:1:x2", "2:1:+1", "1:8:x1", "1:8:x0", "1:8:+0", "0:8:x2", ":8:x2",
                                         "1::x2", "1:8:x", "1:8:x2:x2", "a:8:x2", "1:1M:+1", "1;2"));

TEST(ParseSeconds, ReadsUnits) {
  EXPECT_DOUBLE_EQ(parse_seconds("1.5", "--timeout"), 1.5);
  EXPECT_DOUBLE_EQ(parse_seconds("250us", "--timeout"), 250e-6);
  EXPECT_DOUBLE_EQ(parse_seconds("20ms", "--timeout"), 0.02);
  EXPECT_DOUBLE_EQ(parse_seconds("3s", "--timeout"), 3);
  EXPECT_DOUBLE_EQ(parse_seconds("2min", "--timeout"), 120);
  EXPECT_DOUBLE_EQ(parse_seconds("1h", "--timeout"), 3600);
  EXPECT_DOUBLE_EQ(parse_seconds("0", "--timeout"), 0);
}

class BadSeconds : public testing::TestWithParam<const char*> {};

TEST_P(BadSeconds, IsRefused) {
  EXPECT_THAT(message_of([] { parse_seconds(GetParam(), "--timeout"); }),
              AllOf(HasSubstr("--timeout"), HasSubstr("ms")));
}

INSTANTIATE_TEST_SUITE_P(Table, BadSeconds,
                         testing::Values("", "s", "-1", "-0", "+1", "nan", "inf", "1e999", "1e308h", "5m",
                                         "1 s", "1sec", "1,5"));

TEST(Human, GroupsThousands) {
  EXPECT_EQ(human(0), "0");
  EXPECT_EQ(human(999), "999");
  EXPECT_EQ(human(1000), "1,000");
  EXPECT_EQ(human(1'000'000), "1,000,000");
  EXPECT_EQ(human(-999), "-999");
  EXPECT_EQ(human(-123'456), "-123,456");
  EXPECT_EQ(human(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(HumanBytes, HasThreeFigures) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(67'108'864), "67.1 MB");
  EXPECT_EQ(human_bytes(512'000'000), "512 MB");
  EXPECT_EQ(human_bytes(5'120'000'000), "5.12 GB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::int64_t>::max()), "9.22 EB");
}

TEST(HumanBytes, NeverRoundsUpToFourFigures) {
  EXPECT_EQ(human_bytes(999'499), "999 kB");
  EXPECT_EQ(human_bytes(999'500), "1.00 MB");
  EXPECT_EQ(human_bytes(9'996), "10.0 kB");
  EXPECT_EQ(human_bytes(99'960), "100 kB");
}

TEST(ShortCount, IsShortOnlyWhereExact) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(128), "128");
  EXPECT_EQ(short_count(131072), "131072");
  EXPECT_EQ(short_count(128'000), "128k");
  EXPECT_EQ(short_count(10'000'000), "10M");
  EXPECT_EQ(short_count(1'500'000'000), "1500M");
}

TEST(ShortCount, IsReadBack) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 10'000; ++i) {
    auto number = static_cast<std::int64_t>(engine() >> 1 >> (engine() % 63));
    if (i % 2 == 0) number = number / 1'000'000 * 1000;
    ASSERT_EQ(parse_count(short_count(number), "--rows"), number);
  }
}

}  // namespace
}  // namespace stbench::harness
