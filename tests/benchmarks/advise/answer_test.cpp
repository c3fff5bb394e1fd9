#include "benchmarks/advise/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "benchmarks/advise/answer_text.h"
#include "reports/statistics/statistics.h"

namespace stbench::advise {
namespace {

using reports::Record;
using reports::Report;
using reports::Status;
using testing::HasSubstr;
using testing::Not;

/// One row of a report whose samples are given.
struct Row {
  std::string placement, cache = "warm", method = "speedtorch", suite = "transfer";
  std::int64_t group = 0;
  Status status = Status::ok;
};

Record record(const Row& row, std::vector<double> samples) {
  Record made;
  made.id = {.suite = row.suite,
             .direction = row.suite == "transfer" ? "to" : "step",
             .placement = row.placement,
             .method = row.method,
             .device = "cpu",
             .dtype = "float32",
             .index_dtype = "int64",
             .distribution = "uniform",
             .rows = 1000,
             .dim = 8,
             .batch = 10,
             .cores = 1};
  made.id.axes = {{"cache", row.cache}};
  made.status = row.status;
  made.samples_s = std::move(samples);
  made.more = {{"repeat", std::int64_t{1}}, {"group", row.group}};
  reports::summarise(made);
  return made;
}

/// `count` samples around a time, each 1 % from its neighbours, in an order that no two calls share.
std::vector<double> around(double seconds, int turn = 0, std::size_t count = 21) {
  std::vector<double> samples;
  for (std::size_t k = 0; k < count; ++k)
    samples.push_back(seconds * (1 + 0.01 * (static_cast<double>(k) - static_cast<double>(count / 2)) / 10));
  std::rotate(samples.begin(), samples.begin() + turn, samples.end());
  return samples;
}

Question question(double step_s) {
  Question one;
  one.rows = 1000, one.dim = 8, one.batch = 10, one.step_s = step_s;
  return one;
}

Room room_of_tests() {
  return {10'000'000'000, 0, 10'000'000'000, "the machine's memory", "the GPU", "the disk", "no GPU", 2};
}

/// Memory of 1 ms and 0.9 ms a look-up, and a file of 30 ms.
Report measured(double file_s = 0.03) {
  Report report;
  report.records = {record({"libtorch"}, around(0.001)),
                    record({"hugepage"}, around(0.0009, 3)),
                    record({"mapped"}, around(0.00095, 5)),
                    record({"libtorch", "cold", "speedtorch", "transfer", 1}, around(0.002, 7)),
                    record({"hugepage", "cold", "speedtorch", "transfer", 1}, around(0.0018, 2)),
                    record({"mapped", "cold", "speedtorch", "transfer", 1}, around(10 * file_s, 1)),
                    record({"mapped", "cold", "file_rows", "transfer", 1}, around(file_s, 4))};
  return report;
}

Record& row_of(Report& report, const std::string& placement, const std::string& cache,
               const std::string& method = "speedtorch") {
  return *std::ranges::find_if(report.records, [&](const Record& row) {
    return row.id.placement == placement && row.id.method == method &&
           *reports::find(row.id.axes, "cache") == reports::Value(cache);
  });
}

struct Asked {
  Question question;
  Room room;
  std::vector<Report> reports;
  Answer answer;

  Asked(Question asked, std::vector<Report> measured_, Room given = room_of_tests())
      : question(std::move(asked)), room(std::move(given)), reports(std::move(measured_)) {
    answer = answer_of(question, choices_for(question, room), reports);
  }

  [[nodiscard]] std::string recommended() const {
    return answer.recommended ? answer.choices[*answer.recommended].choice.name : "nothing";
  }
  [[nodiscard]] const MeasuredChoice& choice(const std::string& name) const {
    return *std::ranges::find_if(answer.choices, [&](const auto& one) { return one.choice.name == name; });
  }
  [[nodiscard]] std::vector<std::string> open() const {
    std::vector<std::string> names;
    for (const auto k : answer.open) names.push_back(answer.choices[k].choice.name);
    return names;
  }
  /// On one line.
  [[nodiscard]] std::string text() const {
    auto text = text_of(answer, question, room, {false, 10'000, false});
    std::ranges::replace(text, '\n', ' ');
    return text;
  }
};

TEST(Advise, KeepsTheTableInMemoryWhereAFileMakesStepsMuchLonger) {
  const Asked asked(question(0.01), {measured()});
  EXPECT_EQ(asked.recommended(), "hugepage");
  EXPECT_TRUE(asked.open().empty());
  const auto found = compare_steps(asked.choice("file"), asked.choice("hugepage"), 0.01);
  EXPECT_EQ(found.verdict(), Verdict::beyond);
  // 40 ms over 11.8 ms with cold caches, over 10.9 ms with warm ones.
  EXPECT_GT(found.interval.low, 3.3);
  EXPECT_LT(found.interval.high, 3.8);
  EXPECT_THAT(asked.text(), HasSubstr("Keep the table in memory in huge pages (hugepage)"));
  EXPECT_THAT(asked.text(), HasSubstr("not worth it"));
  EXPECT_EQ(json_of(asked.answer, asked.question, asked.room)["verdict"], "keep");
}

TEST(Advise, KeepsTheTableInAFileWhereStepsAreLong) {
  const Asked asked(question(10), {measured()});
  EXPECT_EQ(asked.recommended(), "file");
  EXPECT_FALSE(asked.answer.cheaper);
  // The fastest method reads the file; the mapping's page faults take 0.3 s.
  EXPECT_NEAR(wait_of(asked.choice("file").states.front()).median, 0.03, 0.001);
  EXPECT_THAT(asked.text(), HasSubstr("without it a step is 0.3 % longer"));
  EXPECT_THAT(asked.text(), HasSubstr("not worth it"));
}

TEST(Advise, ClaimsNothingWhereTheIntervalReachesTheLimit) {
  // Steps of 12.1 to 12.9 ms with a file, of 11.8 ms with memory.
  auto report = measured();
  auto& file = row_of(report, "mapped", "cold", "file_rows");
  std::vector<double> samples;
  for (int k = 0; k < 21; ++k) samples.push_back(k % 2 == 0 ? 0.0021 : 0.0029);
  file = record({"mapped", "cold", "file_rows", "transfer", 1}, samples);
  const Asked asked(question(0.01), {report});
  EXPECT_EQ(asked.recommended(), "hugepage");
  EXPECT_THAT(asked.open(), testing::Contains("file"));
  EXPECT_THAT(asked.text(), HasSubstr("Not decided between file and hugepage"));
  EXPECT_THAT(asked.text(), Not(HasSubstr(": worth it")));
  EXPECT_EQ(json_of(asked.answer, asked.question, asked.room)["verdict"], "not decided");
}

TEST(Advise, ClaimsNothingOfEqualChoices) {
  auto report = measured();
  row_of(report, "hugepage", "warm") = record({"hugepage"}, around(0.001, 9));
  const Asked asked(question(0.01), {report});
  EXPECT_EQ(asked.recommended(), "libtorch");  // faster in neither state for sure: the first
  EXPECT_THAT(asked.open(), testing::ElementsAre("hugepage"));
  EXPECT_THAT(asked.text(), HasSubstr("Not decided between hugepage and libtorch"));
}

TEST(Advise, CountsAllRoundsOfAnUnstableRow) {
  // The median's interval of 20 rounds of 10 s and one of 0: a file is beyond. All rounds: not decided.
  auto report = measured();
  auto& file = row_of(report, "mapped", "cold", "file_rows");
  auto samples = around(0.03);
  samples[7] = 0;
  file = record({"mapped", "cold", "file_rows", "transfer", 1}, samples);
  EXPECT_TRUE(Asked(question(0.01), {report}).open().empty());
  file.status = Status::unstable;
  const Asked asked(question(0.01), {report});
  EXPECT_THAT(asked.open(), testing::ElementsAre("file"));
  EXPECT_THAT(asked.text(), HasSubstr("1 unstable"));
}

TEST(Advise, PairsRoundsOfTheSameGroupOnly) {
  // Drift of 3 times in both, 10 % between them in each round: only pairs show it.
  std::vector<double> slow, fast;
  for (int k = 0; k < 21; ++k) {
    fast.push_back(0.01 * (1 + k * 0.1));
    slow.push_back(1.1 * fast.back());
  }
  auto report = measured();
  row_of(report, "libtorch", "warm") = record({"libtorch"}, slow);
  row_of(report, "hugepage", "warm") = record({"hugepage"}, fast);
  EXPECT_EQ(Asked(question(0.01), {report}).recommended(), "hugepage");
  row_of(report, "hugepage", "warm") = record({"hugepage", "warm", "speedtorch", "transfer", 2}, fast);
  EXPECT_THAT(Asked(question(0.01), {report}).open(), testing::Contains("hugepage"));
}

TEST(Advise, PairsNoRowsOfTwoReports) {
  auto report = measured();
  Report other;
  for (const auto& row : report.records) {
    if (row.id.placement == "hugepage") other.records.push_back(row);
  }
  std::erase_if(report.records, [](const Record& row) { return row.id.placement == "hugepage"; });
  const Asked asked(question(0.01), {report, other});
  EXPECT_FALSE(compare_steps(asked.choice("libtorch"), asked.choice("hugepage"), 0).paired);
}

TEST(Advise, PairsTheFirstRoundsOfARowThatWentOn) {
  auto report = measured();
  auto longer = around(0.001);
  longer.insert(longer.end(), 40, 5.0);
  row_of(report, "libtorch", "warm") = record({"libtorch"}, longer);
  const Asked asked(question(0.01), {report});
  const auto found = compare_steps(asked.choice("libtorch"), asked.choice("hugepage"), 0);
  EXPECT_TRUE(found.paired);
  EXPECT_LT(found.interval.high, 1.2);
}

TEST(Advise, DecidesNothingByFiveRounds) {
  auto report = measured();
  for (auto& row : report.records) row.samples_s.resize(5), reports::summarise(row);
  const Asked asked(question(0.01), {report});
  EXPECT_FALSE(asked.answer.open.empty());
  EXPECT_THAT(asked.text(), HasSubstr("Not decided"));
}

TEST(Advise, SaysNotWorthItWhereOnlyAFileFitsAndStepsWaitForIt) {
  auto little = room_of_tests();
  little.memory = 100;
  Report report;
  report.records = {record({"mapped", "cold", "file_rows"}, around(0.03))};
  const Asked slow(question(0.01), {report}, little);
  EXPECT_EQ(slow.recommended(), "file");
  EXPECT_THAT(slow.text(), HasSubstr("Not worth it"));
  EXPECT_EQ(json_of(slow.answer, slow.question, slow.room)["verdict"], "not worth it");
  // Memory was not measured, so all that is known is that it saves no more than the wait.
  EXPECT_THAT(slow.text(), HasSubstr("it could save 30."));
  const Asked long_steps(question(0.1), {report}, little);
  EXPECT_THAT(long_steps.text(), Not(HasSubstr("Not worth it")));
  EXPECT_EQ(json_of(long_steps.answer, long_steps.question, little)["verdict"], "keep");
}

TEST(Advise, HasA99PercentQuantileOfAHundredLookUps) {
  auto report = measured();
  std::vector<double> samples(101);
  std::iota(samples.begin(), samples.end(), 1.0);
  row_of(report, "hugepage", "warm") = record({"hugepage"}, samples);
  const Asked asked(question(1000), {report});
  const auto all = quantiles_of(asked.choice("hugepage").states.front());
  EXPECT_EQ(all.p50, 51);
  EXPECT_EQ(all.p99, 100);
  EXPECT_FALSE(all.p99_at_least);
  const auto few = quantiles_of(asked.choice("file").states.front());
  EXPECT_TRUE(few.p99_at_least);
  EXPECT_EQ(few.p99, std::ranges::max(asked.choice("file").states.front().lookup.row->samples_s));
}

TEST(Advise, HasTheQuantilesOfSingleRunsWhereASampleIsAMean) {
  auto report = measured();
  auto& row = row_of(report, "hugepage", "warm");
  row = record({"hugepage"}, around(0.0009, 3, 101));
  reports::set(row.more, "repeat", std::int64_t{8});
  EXPECT_TRUE(quantiles_of({"warm", {&row}, std::nullopt, false}).p99_at_least);
  reports::set(row.more, "latency_p50_s", 0.0008);
  reports::set(row.more, "latency_p99_s", 0.003);
  reports::set(row.more, "latency_runs", std::int64_t{2000});
  const auto found = quantiles_of({"warm", {&row}, std::nullopt, false});
  EXPECT_EQ(found.p50, 0.0008);
  EXPECT_EQ(found.p99, 0.003);
  EXPECT_FALSE(found.p99_at_least);
}

TEST(Advise, AddsTheUpdateOfATableThatTrains) {
  auto trains = question(0.01);
  trains.optimizer = "Adam", trains.states = 2;
  Report steps;
  steps.records = {record({"libtorch", "warm", "sparse_rows", "optimizer"}, around(0.004)),
                   record({"hugepage", "warm", "sparse_rows", "optimizer"}, around(0.002)),
                   record({"libtorch", "cold", "sparse_rows", "optimizer"}, around(0.006)),
                   record({"hugepage", "cold", "sparse_rows", "optimizer"}, around(0.0045)),
                   record({"mapped", "warm", "sparse_rows", "optimizer"}, around(0.003))};
  const Asked asked(trains, {measured(), steps});
  EXPECT_EQ(asked.recommended(), "hugepage");
  EXPECT_NEAR(wait_of(asked.choice("hugepage").states.front()).median, 0.0009 + 0.002, 1e-9);
  EXPECT_NEAR(wait_of(asked.choice("hugepage").states.back()).median, 0.0018 + 0.0045, 1e-9);
  // The rows of two states are read from the file, too.
  const auto& file = asked.choice("file").states.front();
  EXPECT_TRUE(file.estimated);
  EXPECT_NEAR(wait_of(file).median, 3 * 0.03, 1e-9);
  EXPECT_THAT(asked.text(), HasSubstr("estimated"));
  EXPECT_THAT(asked.text(), HasSubstr("2 states of Adam"));
}

/// A file with a cache of 12 ms a look-up, beside the others of measured().
Report with_cache(double seconds, double hits) {
  auto report = measured();
  report.records.push_back(record({"mapped", "cold", "row_cache", "transfer", 1}, around(seconds, 6)));
  reports::set(report.records.back().more, "hit_rate", hits);
  return report;
}

TEST(Advise, KeepsHotRowsInACacheWhereThatSuffices) {
  // Steps of 502 ms with memory, 512 with the cache, 530 with a file alone.
  const Asked asked(question(0.5), {with_cache(0.012, 0.75)});
  EXPECT_EQ(asked.recommended(), "cached");
  EXPECT_EQ(asked.answer.choices[*asked.answer.cheaper].choice.name, "file");
  EXPECT_THAT(asked.text(), HasSubstr("Keep the table in a file, its hot rows in a RowCache (cached)"));
  EXPECT_THAT(asked.text(), HasSubstr("75 % of them in the cache"));
  EXPECT_EQ(json_of(asked.answer, asked.question, asked.room)["choices"][1]["states"][0]["hit_rate"], 0.75);
  // The file itself suffices for longer steps, and no cache for shorter ones.
  EXPECT_EQ(Asked(question(5), {with_cache(0.012, 0.75)}).recommended(), "file");
  EXPECT_EQ(Asked(question(0.01), {with_cache(0.012, 0.75)}).recommended(), "hugepage");
}

TEST(Advise, TakesUpdatesThroughTheCacheAsMeasured) {
  auto trains = question(0.5);
  trains.optimizer = "Adam", trains.states = 2;
  Report steps;
  steps.records = {record({"hugepage", "warm", "sparse_rows", "optimizer"}, around(0.002)),
                   record({"hugepage", "cold", "sparse_rows", "optimizer"}, around(0.003)),
                   record({"mapped", "cold", "row_cache", "optimizer"}, around(0.007))};
  const Asked asked(trains, {with_cache(0.012, 0.75), steps});
  const auto& state = asked.choice("cached").states.front();
  EXPECT_FALSE(state.estimated);
  EXPECT_NEAR(wait_of(state).median, 0.012 + 0.007, 1e-9);
  EXPECT_EQ(asked.recommended(), "cached");
}

TEST(Advise, NamesWrongRowsAndUsesNoneOfThem) {
  auto report = measured();
  auto& row = row_of(report, "hugepage", "warm");
  row.status = Status::wrong, row.reason = "1 of 10 rows differ";
  reports::summarise(row);
  const Asked asked(question(0.01), {report});
  ASSERT_EQ(asked.answer.wrong.size(), 1U);
  EXPECT_THAT(asked.answer.wrong.front(), HasSubstr("1 of 10 rows differ"));
  EXPECT_EQ(asked.choice("hugepage").states.size(), 1U);  // with cold caches
}

TEST(Advise, SaysWhyAChoiceHasNoFigures) {
  auto report = measured();
  for (const auto* method : {"speedtorch", "file_rows"}) {
    auto& row = row_of(report, "mapped", "cold", method);
    row.status = Status::waived, row.reason = "the file stays in memory";
    reports::summarise(row);
  }
  const Asked asked(question(0.01), {report});
  EXPECT_EQ(asked.choice("file").choice.unmeasured, "the file stays in memory");
  EXPECT_THAT(asked.text(),
              HasSubstr("cached: 3.20 kB of memory, 32.0 kB of disk; not measured: its rows are missing"));
}

TEST(Advise, HasNoPlaceWithoutRows) {
  const Asked asked(question(0.01), {Report{}});
  EXPECT_EQ(asked.recommended(), "nothing");
  EXPECT_EQ(json_of(asked.answer, asked.question, asked.room)["verdict"], "nowhere");
  EXPECT_THAT(asked.text(), HasSubstr("Nowhere here"));
}

}  // namespace
}  // namespace stbench::advise
