#include "reports/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "reports/compare/calibration.h"
#include "reports/compare/conclusion.h"
#include "reports/compare/judge.h"
#include "reports/compare/metric.h"
#include "reports/error.h"
#include "reports/files/case_join.h"
#include "reports/files/file.h"
#include "reports/statistics/probability.h"
#include "reports/statistics/ranks.h"
#include "reports/statistics/spread.h"
#include "reports/statistics/statistics.h"
#include "tests/paths.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

using Reports = std::vector<Report>;

/// A machine without troubles: what a verdict follows from can be said beforehand.
SyntheticMachine quiet() {
  SyntheticMachine machine;
  machine.drift = 0.05, machine.of_cell = 0.02, machine.of_row = 0.002, machine.noise = 0.005;
  return machine;
}

int status_of(const Comparison& comparison, bool allow_missing) {
  return conclude(comparison, {}, allow_missing).exit_status;
}

double slow_first_cell(int cell) { return cell == 0 ? 1.2 : 1.0; }

const ComparedCase& row(const Comparison& comparison, const std::string& method, std::int64_t dim) {
  for (const ComparedCase& compared : comparison.cases) {
    if (compared.id.method == method && compared.id.dim == dim) return compared;
  }
  throw std::out_of_range("no such row");
}

TEST(Comparison, TwoRunsAgainstOneKnowASpreadByOneDegreeOfFreedomOnly) {
  const auto base = synthetic_runs(quiet(), 1, 2);
  const auto of_one = compare(base, synthetic_runs(quiet(), 2, 1, slow_first_cell));
  const auto of_two = compare(base, synthetic_runs(quiet(), 2, 2, slow_first_cell));
  // Student's quantile at 1 % is 63.7 with one degree and 9.9 with two; the rest differs by a sixth.
  EXPECT_GT(std::log1p(*row(of_one, "speedtorch", 64).limit),
            3 * std::log1p(*row(of_two, "speedtorch", 64).limit));
  EXPECT_EQ(row(of_one, "speedtorch", 64).verdict, Verdict::unresolved);
}

TEST(Comparison, APlantedSlowdownIsFoundAndNothingElse) {
  const auto base = synthetic_runs(quiet(), 1, 5), now = synthetic_runs(quiet(), 2, 5, slow_first_cell);
  const auto comparison = compare(base, now);
  ASSERT_EQ(comparison.cases.size(), 48U);
  const auto& slow = row(comparison, "speedtorch", 64);
  EXPECT_EQ(slow.verdict, Verdict::slower);
  EXPECT_EQ(slow.metric, "ceiling");
  EXPECT_NEAR(*slow.change, 0.2, 0.02);
  EXPECT_LT(*slow.low, 0.2);
  EXPECT_GT(*slow.high, 0.2);
  EXPECT_LT(*slow.limit, 0.1);
  EXPECT_EQ(count(comparison, Verdict::slower), 1U);
  EXPECT_EQ(count(comparison, Verdict::faster), 0U);
  EXPECT_EQ(status_of(comparison, false), 1);
  EXPECT_THAT(comparison.notes, testing::Not(testing::Contains(testing::HasSubstr("Single runs"))));
  EXPECT_EQ(row(compare(now, base), "speedtorch", 64).verdict, Verdict::faster);
  EXPECT_EQ(status_of(compare(now, base), false), 0);
}

/// Two sides in turn (BASE, NEW, NEW, BASE, ...) on a machine whose rows have two speeds: in the third and
/// fourth pair `speedtorch` takes 1.4 times as long. In NEW it is slower by 8 % in the first cell.
SyntheticSides two_speeds(std::size_t pairs) {
  SyntheticSides sides;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const double speed = pair == 2 || pair == 3 ? std::log(1.4) : 0;
    const auto extra = [&](int /*cell*/, int method) { return method == 2 ? speed : 0; };
    const auto even = [](int) { return 1.0; };
    const auto slow = [](int cell) { return cell == 0 ? 1.08 : 1; };
    sides.base.push_back(synthetic_run(quiet(), 2 * pair, even, extra));
    sides.now.push_back(synthetic_run(quiet(), 2 * pair + 1, slow, extra));
    const std::size_t first = 2 * pair + 10;
    sides.base.back().started_at = "2026-01-01T00:00:" + std::to_string(first + pair % 2) + "Z";
    sides.now.back().started_at = "2026-01-01T00:00:" + std::to_string(first + 1 - pair % 2) + "Z";
  }
  return sides;
}

TEST(Comparison, NeighboursInTimeArePairedIfTheyResembleEachOther) {
  auto sides = two_speeds(5);
  const auto paired = compare(sides.base, sides.now);
  const ComparedCase slow = row(paired, "speedtorch", 64);
  EXPECT_EQ(slow.verdict, Verdict::slower);
  EXPECT_NEAR(*slow.change, 0.08, 0.01);
  EXPECT_DOUBLE_EQ(*slow.p, 0.0625) << "all five pairs are slower";
  EXPECT_EQ(count(paired, Verdict::slower), 1U);
  EXPECT_EQ(count(paired, Verdict::faster), 0U);
  EXPECT_THAT(paired.notes, testing::Contains(testing::HasSubstr("of NEW beside it")));
  // The same processes, all of BASE first: nobody can tell the pairs apart from the speed of a side.
  for (std::size_t i = 0; i < 5; ++i) {
    sides.base[i].started_at = "2026-01-01T00:00:1" + std::to_string(i) + "Z";
    sides.now[i].started_at = "2026-01-01T00:00:2" + std::to_string(i) + "Z";
  }
  const auto apart = compare(sides.base, sides.now);
  EXPECT_EQ(row(apart, "speedtorch", 64).verdict, Verdict::unresolved);
  EXPECT_GT(*row(apart, "speedtorch", 64).limit, 5 * *slow.limit);
  EXPECT_THAT(apart.notes, testing::Not(testing::Contains(testing::HasSubstr("beside it"))));
}

TEST(Comparison, RowsThatAProcessLacksPreventPairs) {
  auto sides = two_speeds(5);
  const auto is_slow_row = [](const Record& record) {
    return record.id.method == "speedtorch" && record.id.dim == 64;
  };
  std::erase_if(sides.now[1].records, is_slow_row);
  const auto compared = compare(sides.base, sides.now);
  EXPECT_EQ(row(compared, "speedtorch", 64).now_runs, 4U);
  for (const auto dim : {64, 128})
    EXPECT_EQ(row(compared, "speedtorch", dim).verdict, Verdict::unresolved) << dim;
}

/// Three pairs tell a spread by two degrees of freedom. A calibration has more, and its limits are narrower.
TEST(Comparison, ACalibrationThatIsNarrowerThanPairsCounts) {
  SyntheticMachine machine = quiet();
  machine.drift = 0, machine.of_cell = 0, machine.of_row = 0.003;
  SyntheticSides sides;
  for (int process = 0; process < 6; ++process) {  // the speed changes by 2 % from pair to pair
    const auto extra = [&](int, int) { return process / 2 * 0.02; };
    auto& side = process % 2 == 0 ? sides.base : sides.now;
    side.push_back(synthetic_run(
        machine, 50 + static_cast<std::uint64_t>(process), [](int) { return 1; }, extra));
    side.back().started_at = "2026-01-01T00:00:1" + std::to_string(process) + "Z";
  }
  const CalibratedSpreads spreads(spreads_of(synthetic_runs(machine, 100, 10)));
  const ComparisonRules by_time{.metric = "time"};
  const auto says_pairs = testing::Contains(testing::HasSubstr("of NEW beside it"));
  EXPECT_THAT(compare(sides.base, sides.now, by_time).notes, says_pairs);
  EXPECT_THAT(compare(sides.base, sides.now, by_time, &spreads).notes, testing::Not(says_pairs));
}

TEST(Comparison, ProcessesThatDoNotResembleEachOtherAreNotPaired) {
  SyntheticMachine machine = quiet();
  machine.drift = 0, machine.of_cell = 0, machine.of_row = 0.02;
  auto sides = synthetic_sides(machine, 3, 5, true);
  const auto in_turn = compare(sides.base, sides.now);
  for (Report& report : sides.now) report.started_at.replace(0, 4, "2027");
  const auto apart = compare(sides.base, sides.now);
  EXPECT_DOUBLE_EQ(*row(in_turn, "speedtorch", 64).p, *row(apart, "speedtorch", 64).p);
  EXPECT_DOUBLE_EQ(*row(in_turn, "speedtorch", 64).change, *row(apart, "speedtorch", 64).change);
}

// The machine is 30 % slower as a whole: relative to the ceiling nothing has changed, in time everything has.
TEST(Comparison, TheCeilingTakesTheDriftOut) {
  SyntheticMachine steady = quiet();
  steady.drift = 0.002;
  const auto base = synthetic_runs(steady, 1, 5);
  auto now = synthetic_runs(steady, 2, 5);
  for (Report& report : now) {
    for (Record& record : report.records) {
      for (double& sample : record.samples_s) sample *= 1.3;
      summarise(record);
    }
  }
  const auto relative = compare(base, now), absolute = compare(base, now, {.metric = "time"});
  for (const ComparedCase& compared : relative.cases) {
    const bool ceiling = compared.id.method == "copy" || compared.id.method == "stream";
    EXPECT_EQ(compared.metric, ceiling ? "time" : "ceiling");
    EXPECT_EQ(compared.verdict, ceiling ? Verdict::slower : Verdict::same) << compared.id.method;
  }
  EXPECT_EQ(count(absolute, Verdict::slower), absolute.cases.size());
}

TEST(Comparison, AnEffectThatIsTooSmallIsNone) {
  const auto base = synthetic_runs(quiet(), 1, 10);
  const auto now = synthetic_runs(quiet(), 2, 10, [](int) { return 1.03; });
  EXPECT_EQ(count(compare(base, now, {.effect = 0.1}), Verdict::slower), 0U);
  EXPECT_GE(count(compare(base, now, {.effect = 0.1}), Verdict::same), 40U);
  EXPECT_GE(count(compare(base, now, {.effect = 0.01}), Verdict::slower), 8U);
}

TEST(Comparison, SingleRunsOfUnknownSpreadDecideNothingBelowAFactorOfTen) {
  const auto base = synthetic_runs(quiet(), 1, 1);
  const auto comparison =
      compare(base, synthetic_runs(quiet(), 2, 1, [](int cell) { return cell == 0 ? 30 : 3; }));
  EXPECT_EQ(count(comparison, Verdict::unresolved), 47U);
  EXPECT_EQ(row(comparison, "speedtorch", 64).verdict, Verdict::slower);
  EXPECT_NEAR(*row(comparison, "speedtorch", 64).limit, 9, 1e-9);  // ten times is 900 % more
  ASSERT_FALSE(comparison.notes.empty());
  EXPECT_THAT(comparison.notes.back(), testing::HasSubstr("stbench calibrate"));
}

TEST(Comparison, ACalibrationLetsSingleRunsDecide) {
  const auto spreads = spreads_of(synthetic_runs(quiet(), 3, 10));
  const CalibratedSpreads calibrated(spreads);
  const auto comparison =
      compare(synthetic_runs(quiet(), 1, 1), synthetic_runs(quiet(), 2, 1, slow_first_cell), {}, &calibrated);
  EXPECT_EQ(row(comparison, "speedtorch", 64).verdict, Verdict::slower);
  EXPECT_EQ(count(comparison, Verdict::slower), 1U);
  EXPECT_GE(count(comparison, Verdict::same), 23U);  // not the ceilings, whose times drift
  const auto& slow = row(comparison, "speedtorch", 64);
  ASSERT_TRUE(slow.base && slow.now);
  EXPECT_GT(*slow.now, 1.1 * *slow.base);
  EXPECT_THAT(comparison.notes,
              testing::Not(testing::Contains(testing::HasSubstr("no numbers on either side"))));
}

TEST(Calibration, IsOfTheRowsThatAreJudgedAndNamesTheProgram) {
  auto runs = synthetic_runs(quiet(), 3, 2);
  const auto rows = runs.front().records.size();
  for (Report& run : runs) {
    Record sum = run.records.front();
    sum.id.direction = "sum", sum.samples = 0;
    sum.samples_s.clear();
    run.records.push_back(sum);
  }
  const auto spreads = spreads_of(runs);
  EXPECT_EQ(spreads.program, "synthetic");
  EXPECT_EQ(spreads.cases.size(), rows);
  for (const auto& one : spreads.cases) EXPECT_NE(one.id.direction, "sum");
}

// As few samples as a Mann-Whitney test cannot tell apart after the correction for 48 rows.
TEST(Comparison, TooFewSamplesSayHowManyItTakes) {
  SyntheticMachine few = quiet();
  few.samples = 5;
  const CalibratedSpreads calibrated(spreads_of(synthetic_runs(few, 3, 10)));
  const auto comparison =
      compare(synthetic_runs(few, 1, 1), synthetic_runs(few, 2, 1, slow_first_cell), {}, &calibrated);
  const auto& slow = row(comparison, "speedtorch", 64);
  EXPECT_EQ(slow.verdict, Verdict::unresolved);
  EXPECT_EQ(slow.needs_samples, 8);  // 48 rows * 2 / C(16, 8) = 0.0075; with 7 it would be 0.028
}

// The spread between processes is nothing here: what could be seen follows from the samples of the two runs.
TEST(Comparison, VisibleSlowdownOfSingleRunsFollowsFromTheirSamples) {
  SyntheticMachine noisy = quiet();
  noisy.drift = noisy.of_cell = noisy.of_row = 1e-5, noisy.noise = 0.3;
  Calibration none = spreads_of(synthetic_runs(noisy, 3, 10));
  for (auto& one : none.cases) one.time = 1e-4, one.ceiling.reset();
  const CalibratedSpreads calibrated(none);
  const auto base = synthetic_runs(noisy, 1, 1), now = synthetic_runs(noisy, 2, 1);
  const auto comparison = compare(base, now, {.effect = 1e-3, .metric = "time"}, &calibrated);
  const auto joined = join_cases(base, now);
  const auto measured = measured_cases(joined, "time");
  ASSERT_EQ(comparison.cases.size(), measured.size());
  const double level = 0.01 / static_cast<double>(measured.size()), power = 0.8416;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const auto interval =
        hodges_lehmann(measured[i].base.front().samples, measured[i].now.front().samples).interval;
    const double error = (interval->high - interval->low) / 2 / student_quantile(0.05, INFINITY);
    ASSERT_TRUE(comparison.cases[i].sees);
    EXPECT_NEAR(std::log1p(*comparison.cases[i].sees), (student_quantile(level, INFINITY) + power) * error,
                1e-9);
  }
}

// All rows together know a row's spread better than its own runs do. Its interval is as wide as the own runs
// make it; its limit, of the same standard error, is for all rows.
TEST(Comparison, AnIntervalIsAsWideAsARowsOwnRunsMakeIt) {
  constexpr int runs = 5;
  const auto base = synthetic_runs(quiet(), 1, runs), now = synthetic_runs(quiet(), 2, runs);
  const auto comparison = compare(base, now, {.effect = 1e-9, .metric = "time"});
  std::vector<Scatter> scatters;
  for (const auto& one : measured_cases(join_cases(base, now), "time")) {
    scatters.emplace_back();
    scatters.back().add(values_of(one.base));
    scatters.back().add(values_of(one.now));
  }
  ASSERT_EQ(comparison.cases.size(), scatters.size());
  const auto rows = static_cast<double>(scatters.size());
  const double own = 2 * runs - 2;
  const SpreadPrior prior = spread_prior(scatters);
  for (std::size_t i = 0; i < scatters.size(); ++i) {
    const double freedom = spread_of(scatters[i], prior)->freedom;
    EXPECT_GT(freedom, own);
    const double reach = (std::log1p(*comparison.cases[i].high) - std::log1p(*comparison.cases[i].low)) / 2;
    const double factor = std::max(student_quantile(0.01 / rows, std::min(freedom, 4 + 1.4 * runs)),
                                   student_quantile(0.01, own));
    EXPECT_NEAR(reach / std::log1p(*comparison.cases[i].limit), student_quantile(0.05, own) / factor, 1e-9);
  }
}

TEST(Comparison, SaysWhichReportWasInterrupted) {
  auto now = synthetic_runs(quiet(), 2, 2);
  now.front().interrupted = true;
  const auto notes = compare(synthetic_runs(quiet(), 1, 2), now).notes;
  EXPECT_THAT(notes, testing::Contains(testing::HasSubstr("Report 1 of NEW was interrupted")));
  EXPECT_THAT(notes, testing::Not(testing::Contains(testing::HasSubstr("Report 2"))));
}

TEST(Comparison, AChangeJustBelowALargeEffectTakesMoreThanOneRun) {
  constexpr double effect = 0.6;
  const CalibratedSpreads calibrated(spreads_of(synthetic_runs(quiet(), 3, 10)));
  const auto comparison =
      compare(synthetic_runs(quiet(), 1, 1), synthetic_runs(quiet(), 2, 1, [](int) { return 1.58; }),
              {.effect = effect}, &calibrated);
  int below = 0;
  for (const auto& compared : comparison.cases) {
    if (compared.verdict != Verdict::unresolved || !compared.needs_runs || *compared.change >= effect)
      continue;
    EXPECT_GT(*compared.needs_runs, 1);
    ++below;
  }
  EXPECT_GT(below, 0);
}

TEST(Comparison, AnUnresolvedRowSaysHowManyRunsItTakes) {
  // A slowdown that the noise hides; and no slowdown, where the noise would hide one.
  for (const auto& [noise, slowdown] : {std::pair{0.03, 1.08}, std::pair{0.1, 1.0}}) {
    SyntheticMachine noisy = quiet();
    noisy.of_row = noise;
    const auto comparison = compare(synthetic_runs(noisy, 1, 3),
                                    synthetic_runs(noisy, 2, 3, [by = slowdown](int) { return by; }));
    int large = 0, small = 0;
    for (const ComparedCase& compared : comparison.cases) {
      if (compared.verdict != Verdict::unresolved || !compared.needs_runs)
        continue;  // none: more than is worth it
      EXPECT_GT(*compared.needs_runs, 3);
      ++(std::abs(std::log1p(*compared.change)) < std::log1p(ComparisonRules{}.effect) ? small : large);
    }
    EXPECT_GT(slowdown > 1 ? large : small, 0) << noise;
  }
}

// A change below the effect is unresolved while its interval is beyond. In n times the runs the interval has
// 1/sqrt(n) of its width. More than 1,000 runs are not advised.
TEST(Comparison, RunsForAnIntervalBelowTheEffectFollowFromItsWidth) {
  constexpr int runs = 5;
  const auto base = synthetic_runs(quiet(), 1, runs), now = synthetic_runs(quiet(), 2, runs, slow_first_cell);
  const auto found = row(compare(base, now), "speedtorch", 64);
  const double reach = (std::log1p(*found.high) - std::log1p(*found.low)) / 2;
  for (const int wanted : {6, 100, 1000, 1001}) {
    const double room = reach * std::sqrt(runs / (wanted - 0.5));
    const double effect = std::expm1(std::log1p(*found.change) + room);
    const auto unresolved = row(compare(base, now, {.effect = effect}), "speedtorch", 64);
    EXPECT_EQ(unresolved.verdict, Verdict::unresolved) << wanted;
    if (wanted > 1000) {
      EXPECT_FALSE(unresolved.needs_runs);
    } else {
      EXPECT_EQ(unresolved.needs_runs, wanted);
    }
  }
}

// ---- joins

/// A report with these methods of one cell.
Report with_methods(const std::vector<std::string>& methods) {
  Report report;
  for (const auto& method : methods) report.records.push_back(measured("to", "hugepage", method, 0.002));
  derive(report.records);
  return report;
}

Record& record(Report& report, const std::string& method) {
  for (Record& candidate : report.records) {
    if (candidate.id.method == method) return candidate;
  }
  throw std::out_of_range("no such record");
}

void set_status(Record& changed, Status status, const std::string& reason) {
  changed.status = status, changed.reason = reason;
  summarise(changed);
}

Comparison of(const Report& base, const Report& now) { return compare(Reports{base}, Reports{now}); }

TEST(Comparison, MissingAndNewRowsAreSaid) {
  const auto comparison =
      of(with_methods({"copy", "speedtorch", "advanced"}), with_methods({"copy", "speedtorch", "numpy"}));
  ASSERT_EQ(comparison.cases.size(), 4U);
  EXPECT_EQ(comparison.cases[2].verdict, Verdict::missing);
  EXPECT_EQ(comparison.cases[2].id.method, "advanced");
  EXPECT_EQ(comparison.cases[3].verdict, Verdict::added);
  EXPECT_TRUE(comparison.cases[2].base && !comparison.cases[2].now);
  EXPECT_TRUE(!comparison.cases[3].base && comparison.cases[3].now);
  EXPECT_EQ(status_of(comparison, false), 1);
  EXPECT_EQ(status_of(comparison, true), 0);
}

TEST(Comparison, FailedAndWaivedCasesAreMissing) {
  for (const auto& [status, note] :
       {std::pair(Status::failed, "failed: no end"), {Status::waived, "waived: no end"}}) {
    auto now = with_methods({"copy", "speedtorch"});
    set_status(record(now, "speedtorch"), status, "no end");
    const auto comparison = of(with_methods({"copy", "speedtorch"}), now);
    EXPECT_EQ(comparison.cases[1].verdict, Verdict::missing);
    EXPECT_EQ(comparison.cases[1].note, note);
    EXPECT_EQ(status_of(comparison, false), 1);
  }
}

TEST(Comparison, AFailureInOneOfSeveralRunsCounts) {
  const auto whole = with_methods({"copy", "speedtorch"});
  auto failing = whole;
  set_status(record(failing, "speedtorch"), Status::failed, "no end");
  const auto comparison = compare(Reports{whole, whole}, Reports{whole, failing, whole});
  EXPECT_EQ(comparison.cases[1].verdict, Verdict::missing);
}

TEST(Comparison, AWrongResultIsWorseThanASlowOne) {
  auto now = with_methods({"copy", "speedtorch"});
  set_status(record(now, "speedtorch"), Status::wrong, "row 3 differs");
  const auto comparison = of(with_methods({"copy", "speedtorch"}), now);
  EXPECT_EQ(comparison.cases[1].verdict, Verdict::now_wrong);
  EXPECT_EQ(comparison.cases[1].note, "row 3 differs");
  EXPECT_EQ(status_of(comparison, true), 2);
  EXPECT_EQ(status_of(of(now, now), true), 2);
  EXPECT_EQ(status_of(of(now, with_methods({"copy", "speedtorch"})), false), 0);  // mended: new
}

TEST(Comparison, AnAxisThatWasAddedSinceIsAtItsDefault) {
  auto older = with_methods({"copy", "speedtorch"});
  for (Record& changed : older.records)
    std::erase_if(changed.id.axes, [](const auto& axis) { return axis.first == "isa"; });
  EXPECT_EQ(of(older, with_methods({"copy", "speedtorch"})).cases.size(), 2U);
  auto other = with_methods({"copy", "speedtorch"});
  for (Record& changed : other.records) changed.id.axes.back().second = "avx2";
  EXPECT_EQ(of(older, other).cases.size(), 4U);
}

TEST(Comparison, TheSameCaseTwiceIsRefused) {
  auto twice = with_methods({"copy", "speedtorch"});
  twice.records.push_back(twice.records.back());
  EXPECT_THAT(
      [&] { of(twice, twice); },
      testing::ThrowsMessage<ReportError>(testing::HasSubstr("cases 2 and 3 of a report are the same case")));
  auto with_the_first = with_methods({"copy", "speedtorch"});
  with_the_first.records.push_back(with_the_first.records.front());
  EXPECT_THAT(
      [&] { of(with_the_first, with_the_first); },
      testing::ThrowsMessage<ReportError>(testing::HasSubstr("cases 1 and 3 of a report are the same case")));
  for (Record& one : twice.records) one.id.method = std::string(1000, 'm');
  EXPECT_THAT([&] { of(twice, twice); },
              testing::ThrowsMessage<ReportError>(testing::SizeIs(testing::Lt(150U))));
}

TEST(Comparison, NothingToCompareIsAnErrorAndNotASuccess) {
  EXPECT_THROW(of({}, {}), ReportError);
  EXPECT_THROW(
      compare(Reports{with_methods({"copy"})}, Reports{with_methods({"copy"})}, {.metric = "peak_bytes"}),
      ReportError);
}

TEST(Comparison, SumsFollowFromTheirPartsAndAreNotJudged) {
  auto report = with_methods({"copy", "speedtorch"});
  for (Record sum :
       std::vector(report.records)) {  // the ceiling's too, which the others would be held against
    sum.id.direction = "sum", sum.samples = 0;
    sum.samples_s.clear();
    report.records.push_back(sum);
  }
  const auto comparison = of(report, report);
  EXPECT_EQ(comparison.cases.size(), 2U);
  EXPECT_THAT(comparison.notes, testing::Contains(testing::HasSubstr("2 sums are not compared")));
}

// Without samples the intervals of the medians have to do; the note says that this is less.
TEST(Comparison, WithoutSamplesTheIntervalsCount) {
  const auto without = [](Reports reports) {
    for (Report& report : reports) {
      for (Record& changed : report.records) changed.samples_s.clear();
    }
    return reports;
  };
  const CalibratedSpreads calibrated(spreads_of(synthetic_runs(quiet(), 3, 10)));
  const auto base = without(synthetic_runs(quiet(), 1, 1));
  const auto comparison =
      compare(base, without(synthetic_runs(quiet(), 2, 1, slow_first_cell)), {}, &calibrated);
  EXPECT_EQ(row(comparison, "speedtorch", 64).verdict, Verdict::slower);
  EXPECT_EQ(count(comparison, Verdict::slower), 1U);
  for (const auto& one : comparison.cases) EXPECT_TRUE(one.sees);
  EXPECT_THAT(comparison.notes, testing::Contains(testing::HasSubstr("less power")));
  EXPECT_THAT(comparison.notes, testing::Not(testing::Contains(testing::HasSubstr("Single runs"))));
}

// Where one side of a case has no samples, those of the other are not looked at: not the same thing would be
// compared.
TEST(Comparison, SamplesOfOneSideAloneAreNone) {
  auto with = synthetic_runs(quiet(), 1, 1), without = synthetic_runs(quiet(), 1, 1);
  for (Record& changed : without.front().records) changed.samples_s.clear();
  EXPECT_TRUE(have_samples(join_cases(with, with)));
  EXPECT_FALSE(have_samples(join_cases(with, without)));
  EXPECT_FALSE(have_samples(join_cases(without, with)));
}

// A row that nobody timed on one side, as a sum: the other side's samples have nothing to be held against.
TEST(Comparison, ARowThatIsTimedOnOneSideAloneIsJudgedByItsIntervals) {
  const CalibratedSpreads calibrated(spreads_of(synthetic_runs(quiet(), 3, 10)));
  auto base = synthetic_runs(quiet(), 1, 1);
  for (Record& changed : base.front().records) changed.samples = 0, changed.samples_s.clear();
  const auto now = synthetic_runs(quiet(), 2, 1, slow_first_cell);
  ASSERT_TRUE(have_samples(join_cases(base, now)));
  const auto comparison = compare(base, now, {}, &calibrated);
  EXPECT_EQ(row(comparison, "speedtorch", 64).verdict, Verdict::slower);
  EXPECT_EQ(count(comparison, Verdict::slower), 1U);
  for (const auto& one : comparison.cases) EXPECT_TRUE(one.sees);
}

// Clocks so coarse that all samples are equal: the interval has no width, and any difference lies outside of
// it.
TEST(Comparison, IntervalsWithoutWidthTellEverything) {
  const CalibratedSpreads calibrated(spreads_of(synthetic_runs(quiet(), 3, 10)));
  auto base = synthetic_runs(quiet(), 1, 1);
  for (Record& changed : base.front().records) {
    changed.samples_s.clear();
    changed.ci_low_s = changed.ci_high_s = changed.median_s;
  }
  auto now = base;
  for (Record& changed : now.front().records) {
    if (changed.id.method == "speedtorch" && changed.id.dim == 64)
      changed.ci_low_s = changed.ci_high_s = changed.median_s = *changed.median_s * 3;
  }
  const auto comparison = compare(base, now, {.metric = "time"}, &calibrated);
  EXPECT_EQ(row(comparison, "speedtorch", 64).verdict, Verdict::slower);
  EXPECT_EQ(count(comparison, Verdict::slower), 1U);
  for (const ComparedCase& compared : comparison.cases) EXPECT_FALSE(std::isnan(compared.p.value_or(1)));
}

// A shift of just the effect asks for as many runs as one that is a little larger.
TEST(Comparison, AShiftOfTheEffectIsLargeEnough) {
  Calibration wide = spreads_of(synthetic_runs(quiet(), 3, 10));
  for (auto& one : wide.cases) one.time = 0.15, one.ceiling.reset();
  const CalibratedSpreads calibrated(wide);
  const auto taking = [](double seconds) {
    auto reports = synthetic_runs(quiet(), 1, 1);
    for (Record& changed : reports.front().records) {
      const double time = changed.id.method == "speedtorch" && changed.id.dim == 64 ? seconds : 1;
      changed.median_s = changed.ci_low_s = changed.ci_high_s = time;
      changed.samples_s.assign(changed.samples_s.size(), time);
    }
    return reports;
  };
  const auto runs = [&](double seconds) {
    const ComparisonRules rules{.effect = 0.25, .metric = "time"};
    return row(compare(taking(1), taking(seconds), rules, &calibrated), "speedtorch", 64).needs_runs;
  };
  ASSERT_EQ(std::log(1.25), std::log1p(0.25));
  EXPECT_GT(runs(1.25).value_or(0), 10);
  EXPECT_EQ(runs(1.25), runs(1.2501));
}

TEST(Comparison, AColumnCanBeTheMetric) {
  auto base = with_methods({"copy", "speedtorch"});
  for (Record& changed : base.records) changed.more.emplace_back("peak_bytes", std::int64_t{1000});
  auto now = base;
  record(now, "speedtorch").more.back().second = std::int64_t{1500};
  const auto comparison =
      compare(Reports{base, base, base}, Reports{now, now, now}, {.metric = "peak_bytes"});
  EXPECT_EQ(comparison.cases[0].verdict, Verdict::same);
  EXPECT_EQ(comparison.cases[1].verdict, Verdict::slower);
  EXPECT_NEAR(*comparison.cases[1].change, 0.5, 1e-9);
}

TEST(Comparison, AReportOfAnOlderMinorSchemaIsRead) {
  const auto older = read_report(stbench::test::source_folder() + "/tests/data/report-1.0.json");
  ASSERT_EQ(older.schema_version, "1.0");
  auto newer = older;
  newer.schema_version = "1.1";
  const auto comparison = compare(Reports{older}, Reports{newer});
  EXPECT_GT(comparison.cases.size(), 5U);
  EXPECT_EQ(status_of(comparison, false), 0);
}

// ---- spread

TEST(SpreadPrior, FindsTheLawThatTheRowsWereDrawnFrom) {
  std::vector<Scatter> alike, mixed;
  std::mt19937_64 engine(7);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 3000; ++i) {
    const double deviation = i % 2 == 0 ? 0.01 : 0.1;
    Scatter one, other;
    one.add(std::vector<double>{0.02 * normal(engine), 0.02 * normal(engine), 0.02 * normal(engine),
                                0.02 * normal(engine)});
    other.add(std::vector<double>{deviation * normal(engine), deviation * normal(engine),
                                  deviation * normal(engine)});
    alike.push_back(one), mixed.push_back(other);
  }
  EXPECT_NEAR(std::sqrt(spread_prior(alike).variance), 0.02, 0.001);
  EXPECT_GT(spread_prior(alike).freedom, 30);
  EXPECT_LT(spread_prior(mixed).freedom, 3);
}

TEST(SpreadPrior, NothingIsKnownOfNothing) {
  EXPECT_EQ(spread_prior({}).freedom, 0);
  EXPECT_FALSE(spread_of({}, {}));
  const Scatter two{.squares = 0.02, .freedom = 2};
  ASSERT_TRUE(spread_of(two, {}));
  EXPECT_DOUBLE_EQ(spread_of(two, {})->deviation, 0.1);
  EXPECT_DOUBLE_EQ(spread_of(two, {.variance = 0.04, .freedom = 2})->deviation, std::sqrt((0.02 + 0.08) / 4));
}

}  // namespace
}  // namespace stbench::reports
