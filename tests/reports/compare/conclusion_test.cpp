#include "reports/compare/conclusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/compare/calibrated_spreads.h"
#include "reports/compare/calibration.h"
#include "reports/compare/comparison.h"
#include "reports/statistics/statistics.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ComparedCase row(Part part, Verdict verdict, double change, double sees) {
  ComparedCase compared;
  compared.id = {"transfer", "to", "hugepage", "speedtorch", "cpu", "float32", "int64",
                 "unique",   1000, 8,          16,           2};
  compared.part = part, compared.verdict = verdict;
  compared.change = change, compared.low = change - 0.01, compared.high = change + 0.01;
  compared.limit = sees, compared.sees = sees;
  compared.base_runs = compared.now_runs = 5;
  return compared;
}

Comparison of(std::vector<ComparedCase> cases) {
  Comparison comparison;
  comparison.cases = std::move(cases);
  return comparison;
}

int status(const Comparison& comparison, const ComparisonRules& rules = {}) {
  return conclude(comparison, rules, false).exit_status;
}

const ComparedCase kSlower = row(Part::subject, Verdict::slower, 0.2, 0.05);
const ComparedCase kSame = row(Part::subject, Verdict::same, 0.0, 0.05);
const ComparedCase kBlind = row(Part::subject, Verdict::unresolved, 0.0, 0.34);
const ComparedCase kMoved = row(Part::control, Verdict::faster, -0.3, 0.05);

TEST(Conclusion, DecidesByWrongThenSlowerThenInconclusive) {
  const ComparedCase wrong = row(Part::subject, Verdict::now_wrong, 0, 0.05);
  EXPECT_EQ(status(of({kBlind, kMoved, kSlower, wrong})), 2);
  EXPECT_EQ(status(of({kBlind, kMoved, kSlower})), 1);
  EXPECT_EQ(status(of({kBlind, kMoved})), 4);
  EXPECT_EQ(status(of({kBlind})), 0);
  EXPECT_EQ(status(of({kBlind, kSame}), {.must_see = 0.1}), 4);
  EXPECT_EQ(status(of({kSame}), {.must_see = 0.1}), 0);
}

TEST(Conclusion, CeilingsAndControlsAreNeverSlower) {
  EXPECT_EQ(status(of({kSame, row(Part::ceiling, Verdict::slower, 0.5, 0.05)}), {.must_see = 0.1}), 0);
  EXPECT_EQ(status(of({kSame, row(Part::control, Verdict::slower, 0.5, 0.05)})), 4);
  // Nor must they be able to show anything.
  EXPECT_EQ(status(of({kSame, row(Part::ceiling, Verdict::unresolved, 0, 0.9)}), {.must_see = 0.1}), 0);
}

TEST(Conclusion, HasAWord) {
  const ComparedCase wrong = row(Part::subject, Verdict::now_wrong, 0, 0.05);
  const ComparedCase missing = row(Part::subject, Verdict::missing, 0, 0.05);
  EXPECT_EQ(conclude(of({wrong}), {}, false).word, "Wrong");
  EXPECT_EQ(conclude(of({kSlower, missing}), {}, false).word, "Slower");
  EXPECT_EQ(conclude(of({missing}), {}, false).word, "Missing");
  EXPECT_EQ(conclude(of({kMoved}), {}, false).word, "Inconclusive");
  EXPECT_EQ(conclude(of({kBlind}), {.must_see = 0.1}, false).word, "Inconclusive");
  EXPECT_EQ(conclude(of({kSame}), {.must_see = 0.1}, false).word, "No slowdown");
  EXPECT_EQ(conclude(of({kSame}), {}, false).word, "No slowdown found");
  EXPECT_EQ(conclude(of({}), {}, false).word, "Nothing compared");
}

TEST(Conclusion, SaysHowMuchCouldHaveBeenSeenAndWhatToDo) {
  const auto blind = conclude(of({kBlind, kSame}), {.must_see = 0.1}, false);
  EXPECT_THAT(blind.text, AllOf(HasSubstr("a slowdown of 10% could have gone unseen in 1 of 2 cases"),
                                HasSubstr("34%"), HasSubstr("about 48 processes per side")));
  EXPECT_THAT(conclude(of({kSame}), {.must_see = 0.1}, false).text, HasSubstr("No slowdown of 10% or more"));
  EXPECT_THAT(conclude(of({kBlind}), {}, false).text,
              HasSubstr("a slowdown below 34% could have gone unseen"));
  EXPECT_THAT(
      conclude(of({kMoved}), {}, false).text,
      AllOf(HasSubstr("state differs"), HasSubstr("43% faster"), HasSubstr("Measure both sides again")));
  EXPECT_THAT(conclude(of({kSlower}), {}, false).text, HasSubstr("20% slower (limit 5.0%)"));
}

// The interval of a row that could have shown 10 % still reaches beyond 10 %: it may be one that was missed.
TEST(Conclusion, ASlowdownThatIsNotExcludedIsNotGreen) {
  ComparedCase close = row(Part::subject, Verdict::unresolved, 0.095, 0.09);
  EXPECT_EQ(status(of({close}), {.must_see = 0.1}), 4);
}

TEST(Conclusion, ARowThatNoTestCanTellIsNotGreen) {
  ComparedCase few = kSame;
  few.sees = std::nullopt;
  const auto conclusion = conclude(of({few}), {.must_see = 0.1}, false);
  EXPECT_EQ(conclusion.exit_status, 4);
  EXPECT_THAT(conclusion.text, HasSubstr("more samples"));
}

SyntheticMachine with_controls() {
  SyntheticMachine machine;
  machine.drift = 0.01, machine.of_cell = 0.005, machine.of_row = 0.003, machine.noise = 0.01;
  machine.controls = true;
  return machine;
}

TEST(Comparison, AMovedControlExcusesTheSubjects) {
  const auto sides = synthetic_sides(with_controls(), 1, 5, false, 0.3);
  const auto comparison = compare(sides.base, sides.now, {.metric = "time"});
  int subjects = 0;
  for (const ComparedCase& compared : comparison.cases) {
    if (compared.part == Part::control) {
      EXPECT_EQ(compared.verdict, Verdict::slower) << "nothing excuses a control";
    }
    if (compared.part != Part::subject) continue;
    ++subjects;  // ours and LibTorch's in our pages, which are 35 % slower
    EXPECT_EQ(compared.verdict, Verdict::unresolved);
    EXPECT_THAT(compared.note, HasSubstr("a control moved"));
  }
  EXPECT_EQ(subjects, 24);
  EXPECT_THAT(conclude(comparison, {}, false).text,
              HasSubstr("LibTorch's own rows (12 controls) moved together"));
}

// A regression of `stream`, this project's own copy, would hide one of the kernels by the same factor.
TEST(Comparison, OurOwnCopyIsNoReferenceWhereThereIsAnother) {
  const auto sides = synthetic_sides(with_controls(), 1, 5, false, 0, [](int) { return 1.2; });
  auto now = sides.now;
  for (Report& report : now) {
    for (Record& record : report.records) {
      if (record.id.method != "stream") continue;
      for (double& sample : record.samples_s) sample *= 1.2;
      summarise(record);
    }
  }
  const auto comparison = compare(sides.base, now);
  for (const ComparedCase& compared : comparison.cases) {
    if (compared.id.method != "speedtorch") continue;
    EXPECT_EQ(compared.verdict, Verdict::slower);
  }
}

TEST(Comparison, ACalibrationChoosesTheQuieterMetric) {
  SyntheticMachine machine = with_controls();
  machine.drift = machine.of_cell = 0.001,
  machine.noise = 0.002;  // a ratio of two rows varies more than each of them
  const CalibratedSpreads spreads(spreads_of(synthetic_runs(machine, 3, 10)));
  const auto sides = synthetic_sides(machine, 1, 5, false);
  std::size_t by_time = 0;
  for (const ComparedCase& compared : compare(sides.base, sides.now, {}, &spreads).cases)
    by_time += compared.part == Part::subject && compared.metric == "time" ? 1U : 0U;
  EXPECT_GT(by_time, 12U);
  for (const ComparedCase& compared : compare(sides.base, sides.now).cases) {
    if (compared.part != Part::subject) continue;
    EXPECT_EQ(compared.metric, "ceiling");
  }
}

}  // namespace
}  // namespace stbench::reports
