#include "harness/distribution.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/harness/message_of.h"
#include "tests/harness/temporary_folder.h"

namespace stbench::harness {
namespace {

using stbench::test::message_of;
using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Lt;
using testing::MatchesRegex;
using Index = std::vector<std::int64_t>;

Index draw(const Distribution& distribution, std::int64_t rows, std::int64_t batch, std::uint64_t seed,
           int set) {
  return IndexSource(distribution).draw(rows, batch, seed, set);
}

std::string recorded_name(const Distribution& distribution) {
  return IndexSource(distribution).recorded_name();
}

Index drawn(const char* name, std::int64_t rows, std::int64_t batch, std::uint64_t seed = 1, int set = 0) {
  return draw(parse_distribution(name), rows, batch, seed, set);
}

double share_of_repeats(const Index& index) {
  const std::set<std::int64_t> distinct(index.begin(), index.end());
  return 1 - static_cast<double>(distinct.size()) / static_cast<double>(index.size());
}

TEST(ParseDistribution, ReadsEachName) {
  for (const char* name :
       {"uniform", "unique", "sequential", "sorted", "zipf:1.05", "zipf:2", "file:a/b,c.txt"}) {
    EXPECT_EQ(to_string(parse_distribution(name)), name);
  }
  EXPECT_EQ(to_string(parse_distribution("zipf:1.050")), "zipf:1.05");
  EXPECT_EQ(parse_distribution("file:x").path, "x");
}

class BadDistribution : public testing::TestWithParam<const char*> {};

TEST_P(BadDistribution, IsRefused) {
  EXPECT_THAT(message_of([] { parse_distribution(GetParam()); }), HasSubstr("--distribution: '"));
}

INSTANTIATE_TEST_SUITE_P(Table, BadDistribution,
                         testing::Values("", "random", "Uniform", "zipf", "zipf:", "zipf:0", "zipf:-1",
                                         "zipf:nan", "zipf:inf", "zipf:21", "zipf:1,0", "zipf:1.0x", "file",
                                         "file:", "unique "));

TEST(ParseDistribution, SuggestsWhatWasMeant) {
  EXPECT_THAT(message_of([] { parse_distribution("uniqe"); }), HasSubstr("did you mean 'unique'?"));
}

class EachDistribution : public testing::TestWithParam<const char*> {};

TEST_P(EachDistribution, IsTheSameForTheSameSeedAndSet) {
  EXPECT_EQ(drawn(GetParam(), 1000, 500, 7, 3), drawn(GetParam(), 1000, 500, 7, 3));
}

TEST_P(EachDistribution, StaysInTheTable) {
  for (const std::int64_t rows :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{1000}, std::int64_t{1} << 60}) {
    const Index index = drawn(GetParam(), rows, std::min<std::int64_t>(rows, 1000));
    EXPECT_EQ(static_cast<std::int64_t>(index.size()), std::min<std::int64_t>(rows, 1000));
    EXPECT_THAT(index, Each(AllOf(Ge(0), Lt(rows))));
  }
}

TEST_P(EachDistribution, DiffersFromSetToSet) {
  EXPECT_NE(drawn(GetParam(), 1'000'000, 100, 7, 0), drawn(GetParam(), 1'000'000, 100, 7, 1));
}

TEST_P(EachDistribution, IsRefusedForNoRows) {
  EXPECT_THAT(message_of([] { drawn(GetParam(), 0, 1); }), HasSubstr("--rows: 0"));
  EXPECT_THAT(message_of([] { drawn(GetParam(), 5, 0); }), HasSubstr("--batch: 0"));
  EXPECT_THAT(message_of([] { drawn(GetParam(), 5, -1); }), HasSubstr("--batch: -1"));
}

INSTANTIATE_TEST_SUITE_P(Names, EachDistribution,
                         testing::Values("uniform", "unique", "sequential", "sorted", "zipf:1.05"));

TEST(Draw, IsTheSameOnEveryMachine) {
  // Recomputed from the definitions of random.h in Python.
  EXPECT_THAT(drawn("uniform", 1'000'000, 4, 42, 0), ElementsAre(755243, 747523, 518602, 97413));
  EXPECT_THAT(drawn("unique", 1'000'000, 4, 42, 0), ElementsAre(147745, 970154, 854278, 750332));
}

TEST(Draw, DiffersFromSeedToSeed) {
  for (const char* name : {"uniform", "unique", "sorted", "zipf:1.05"}) {
    EXPECT_NE(drawn(name, 1'000'000, 100, 1), drawn(name, 1'000'000, 100, 2)) << name;
  }
}

TEST(Uniform, IsEven) {
  constexpr int kCells = 100, kDraws = 100'000;
  std::vector<int> counts(kCells);
  for (const std::int64_t row : drawn("uniform", 1'000'000, kDraws))
    ++counts[static_cast<std::size_t>(row / 10'000)];
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - kDraws / kCells, 2) / (kDraws / kCells);
  EXPECT_NEAR(chi_square, kCells - 1, 5 * std::sqrt(2.0 * (kCells - 1)));
}

TEST(Uniform, RepeatsAsOftenAsChanceDoes) {
  // 131,072 of 1,000,000: 1 - (1 - e^-b) / b with b = 0.131072.
  EXPECT_NEAR(share_of_repeats(drawn("uniform", 1'000'000, 131'072)), 0.0628, 0.003);
}

TEST(Sorted, IsUniformInOrder) {
  Index uniform = drawn("uniform", 1000, 5000, 3, 2);
  std::ranges::sort(uniform);
  EXPECT_EQ(drawn("sorted", 1000, 5000, 3, 2), uniform);
}

class UniqueRows : public testing::TestWithParam<std::int64_t> {};

TEST_P(UniqueRows, AreDistinct) {
  const std::int64_t rows = GetParam();
  for (const std::int64_t batch : {rows, (rows + 1) / 2}) {
    const Index index = drawn("unique", rows, batch);
    const std::set<std::int64_t> distinct(index.begin(), index.end());
    ASSERT_EQ(distinct.size(), index.size());
    EXPECT_GE(*distinct.begin(), 0);
    EXPECT_LT(*distinct.rbegin(), rows);
  }
}

INSTANTIATE_TEST_SUITE_P(Awkward, UniqueRows,
                         testing::Values(1, 2, 3, 7, 8, 9, 15, 16, 17, 1023, 1024, 1025, 65535, 65537));

TEST(Unique, IsDistinctAndEvenOnALargeTable) {
  const std::int64_t rows = 10'000'000;
  const Index index = drawn("unique", rows, 131'072);
  EXPECT_EQ(share_of_repeats(index), 0);
  std::vector<int> counts(64);
  for (const std::int64_t row : index) ++counts[static_cast<std::size_t>(row * 64 / rows)];
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - 2048, 2) / 2048;
  EXPECT_NEAR(chi_square, 63, 5 * std::sqrt(2.0 * 63));
}

TEST(Unique, HasNoOrder) {
  const Index index = drawn("unique", 1'000'000, 10'000);
  int rises = 0;
  for (std::size_t i = 1; i < index.size(); ++i) rises += index[i] > index[i - 1] ? 1 : 0;
  EXPECT_NEAR(rises, 5000, 5 * 29);  // variance (n + 1) / 12
}

TEST(Unique, RefusesABatchAboveTheRows) {
  EXPECT_THAT(message_of([] { drawn("unique", 1000, 1001); }),
              AllOf(HasSubstr("--batch: 1,001 unique rows"), HasSubstr("1,000 rows")));
}

TEST(Sequential, GoesOnWhereTheLastSetEnded) {
  EXPECT_THAT(drawn("sequential", 10, 4, 1, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(drawn("sequential", 10, 4, 1, 1), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(drawn("sequential", 10, 4, 1, 2), ElementsAre(8, 9, 0, 1));
  EXPECT_THAT(drawn("sequential", 3, 7, 1, 0), ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST(ZipfDraw, KeepsTheLawAndScattersTheRanks) {
  constexpr std::int64_t kRows = 100'000, kBatch = 200'000;
  std::map<std::int64_t, int> counts;
  for (const std::int64_t row : drawn("zipf:1.05", kRows, kBatch)) ++counts[row];
  std::vector<std::pair<int, std::int64_t>> frequent;
  for (const auto& [row, count] : counts) frequent.emplace_back(count, row);
  std::ranges::sort(frequent, std::greater{});
  double total = 0;
  for (std::int64_t k = 1; k <= kRows; ++k) total += std::pow(static_cast<double>(k), -1.05);
  for (const std::size_t rank : {1U, 2U, 3U, 10U}) {
    const double expected = kBatch * std::pow(static_cast<double>(rank), -1.05) / total;
    EXPECT_NEAR(frequent[rank - 1].first, expected, 5 * std::sqrt(expected)) << rank;
  }
  // Scattered: the ten most frequent rows are no neighbours.
  Index top;
  for (std::size_t i = 0; i < 10; ++i) top.push_back(frequent[i].second);
  std::ranges::sort(top);
  EXPECT_GT(top.back() - top.front(), kRows / 4);
}

TEST(ZipfDraw, HasTheSameFrequentRowInEachSet) {
  const auto most_frequent = [](std::uint64_t seed, int set) {
    std::map<std::int64_t, int> counts;
    for (const std::int64_t row : drawn("zipf:1.2", 100'000, 20'000, seed, set)) ++counts[row];
    return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
  };
  EXPECT_EQ(most_frequent(1, 0), most_frequent(1, 5));
  EXPECT_NE(most_frequent(1, 0), most_frequent(2, 0));
}

class Trace : public testing::Test {
 protected:
  /// The distribution of a trace with that content.
  Distribution trace(std::string_view content, std::string_view name = "trace.txt") const {
    return parse_distribution("file:" + folder_.write(name, content));
  }

  TemporaryFolder folder_;
};

TEST_F(Trace, IsReadBatchAfterBatch) {
  const IndexSource source(trace("5\n3\n5\n0\n9\n"));
  EXPECT_THAT(source.draw(10, 2, 1, 0), ElementsAre(5, 3));
  EXPECT_THAT(source.draw(10, 2, 99, 1), ElementsAre(5, 0));
  EXPECT_THAT(source.draw(10, 2, 1, 2), ElementsAre(9, 5));
  EXPECT_THAT(source.draw(10, 7, 1, 0), ElementsAre(5, 3, 5, 0, 9, 5, 3));
}

TEST_F(Trace, MayHaveCarriageReturnsAndNoLastLineEnd) {
  EXPECT_THAT(draw(trace("5\r\n3\r\n7"), 8, 3, 1, 0), ElementsAre(5, 3, 7));
  EXPECT_THAT(draw(trace("5"), 8, 2, 1, 0), ElementsAre(5, 5));
}

TEST_F(Trace, IsRecordedByBaseNameAndContent) {
  // printf '1\n2\n' | sha256sum
  EXPECT_EQ(recorded_name(trace("1\n2\n", "deep/er/words.txt")), "file:words.txt@a6e2b7a0");
  EXPECT_NE(recorded_name(trace("1\n3\n")), recorded_name(trace("1\n2\n")));
  EXPECT_EQ(recorded_name(parse_distribution("unique")), "unique");
}

TEST_F(Trace, IsFoundByItsRecordedName) {
  const Distribution distribution = trace("1\n2\n");
  const std::string hash = recorded_name(distribution).substr(std::string("file:trace.txt").size());
  const Distribution recorded = parse_distribution(to_string(distribution) + hash);
  EXPECT_EQ(recorded_name(recorded), recorded_name(distribution));
  EXPECT_THAT(draw(recorded, 3, 2, 1, 0), ElementsAre(1, 2));
  folder_.write("trace.txt", "2\n1\n");
  EXPECT_THAT(message_of([&] { recorded_name(recorded); }), HasSubstr("not the recorded"));
}

struct BadTrace {
  const char* content;
  const char* named;
};

class BadTraces : public testing::TestWithParam<BadTrace> {};

TEST_P(BadTraces, AreRefusedWithTheLine) {
  const TemporaryFolder folder;
  const Distribution distribution = parse_distribution("file:" + folder.write("t.txt", GetParam().content));
  EXPECT_THAT(message_of([&] { draw(distribution, 100, 2, 1, 0); }),
              AllOf(HasSubstr("t.txt"), HasSubstr(GetParam().named)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadTraces,
    testing::Values(BadTrace{"", "has no numbers"}, BadTrace{"\n", "line 1: is empty"},
                    BadTrace{"1\n\n2\n", "line 2: is empty"}, BadTrace{"1\n2\n\n", "line 3: is empty"},
                    BadTrace{"1\nword\n", "line 2: 'word' is no whole number"},
                    BadTrace{"1\n2.5\n", "line 2: '2.5' is no whole number"},
                    BadTrace{"1 2\n", "line 1: '1 2' is no whole number"},
                    BadTrace{"+1\n", "line 1: '+1' is no whole number"},
                    BadTrace{" 1\n", "line 1: ' 1' is no whole"},
                    BadTrace{"1\r2\n", "line 1: '1?2' is no whole number"},
                    BadTrace{"1\n2\n-3\n", "line 3: -3 is negative"},
                    BadTrace{"1\n99\n100\n",
                             "line 3: 100 is not below the table's 100 rows; take --rows 101 or more"},
                    BadTrace{"9223372036854775807\n", "line 1: 9223372036854775807 is not below"},
                    BadTrace{"1\n9223372036854775808\n", "line 2: '9223372036854775808' does not fit"},
                    BadTrace{"\x1b[31mred\n", "line 1: '?[31mred' is no whole number"}));

TEST_F(Trace, MissingFileIsNamed) {
  EXPECT_THAT(message_of([] { recorded_name(parse_distribution("file:nowhere/t.txt")); }),
              HasSubstr("'nowhere/t.txt': no such file"));
  EXPECT_THAT(message_of([&] {
                recorded_name({Distribution::Kind::file, 0, folder_.path().string()});
              }),
              HasSubstr("is a folder"));
}

/// One has no end, the other says nothing until somebody writes: both would be waited for.
TEST_F(Trace, RefusesWhatIsNotARegularFile) {
  const auto pipe = (folder_.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), pipe})
    EXPECT_THAT(message_of([&] { recorded_name(parse_distribution("file:" + path)); }),
                AllOf(HasSubstr("'" + path + "'"), HasSubstr("no regular file")));
}

TEST_F(Trace, MayBeAnArrayOfNumPy) {
  std::string file("\x93NUMPY\x01\x00\x39\x00{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }", 67);
  const std::string head = file;
  file += std::string("\x05\x00\x07", 3);
  const Distribution distribution = trace(file, "trace.npy");
  EXPECT_THAT(draw(distribution, 8, 4, 1, 0), ElementsAre(5, 0, 7, 5));
  EXPECT_THAT(recorded_name(distribution), MatchesRegex("file:trace.npy@[0-9a-f]{8}"));
  EXPECT_THAT(message_of([&] { draw(distribution, 7, 1, 1, 0); }), HasSubstr("element 2: 7 is not below"));
  EXPECT_THAT(message_of([&] { draw(trace(head + "\x01\xff\x02"), 7, 1, 1, 0); }),
              HasSubstr("element 1: -1 is negative"));
  EXPECT_THAT(message_of([&] { draw(trace(head + "\x01"), 7, 1, 1, 0); }),
              AllOf(HasSubstr("trace.txt"), HasSubstr("promises 3 elements")));
}

}  // namespace
}  // namespace stbench::harness
