#include "benchmarks/program/time_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace stbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A run with a clock that the test sets: each group takes its preparation and the sampling that it may have.
struct FakeRun {
  double now = 0;
  TimeBudget budget;
  std::vector<std::optional<double>> sampled;

  explicit FakeRun(double seconds) : budget(seconds, [this] { return now; }) {}

  void measure(int groups, double wanted_s, double preparation_s) {
    budget.plan(groups * wanted_s);
    for (int i = 0; i < groups; ++i) {
      sampled.push_back(budget.begin_group(wanted_s));
      if (!sampled.back()) continue;
      now += preparation_s + *sampled.back();
      budget.end_group();
    }
  }
};

TEST(TimeBudget, NoneLeavesThePresetsTime) {
  FakeRun run(0);
  run.measure(3, 20, 1);
  EXPECT_THAT(run.sampled, ElementsAre(20, 20, 20));
  EXPECT_FALSE(run.budget.is_over());
  EXPECT_EQ(run.budget.deadline(), std::chrono::steady_clock::time_point::max());
}

TEST(TimeBudget, CutsNothingIfAllFits) {
  FakeRun run(100);
  run.measure(3, 20, 1);
  EXPECT_THAT(run.sampled, ElementsAre(20, 20, 20));
  EXPECT_THAT(run.budget.cuts({}), IsEmpty());
}

TEST(TimeBudget, SamplesLessBeforeItLeavesAnythingOut) {
  FakeRun run(60);
  run.measure(6, 20, 1);
  for (const auto& sampled : run.sampled) {
    ASSERT_TRUE(sampled.has_value());
    EXPECT_GT(*sampled, 5);
    EXPECT_LT(*sampled, 12);
  }
  EXPECT_LE(run.now, 55);  // five seconds are for the last checks
  EXPECT_GT(run.now, 50);
  EXPECT_THAT(run.budget.cuts({}),
              ElementsAre(HasSubstr("instead of 2 min 0 s, so cells may have fewer rounds")));
}

TEST(TimeBudget, LeavesOutWhatCannotEvenBePrepared) {
  FakeRun run(20);
  run.measure(10, 20, 5);
  int left_out = 0;
  for (const auto& sampled : run.sampled) left_out += sampled ? 0 : 1;
  EXPECT_GE(left_out, 6);
  EXPECT_LE(left_out, 8);
  EXPECT_TRUE(run.sampled.front().has_value());
  EXPECT_LE(run.now, 20);
}

TEST(TimeBudget, NamesTheGroupsThatWereLeftOut) {
  const FakeRun run(60);
  EXPECT_THAT(run.budget.cuts({"to, 2 cores", "from, 2 cores"}),
              ElementsAre("--time-budget 1 min 0 s: not measured: to, 2 cores; from, 2 cores"));
  EXPECT_THAT(run.budget.cuts(std::vector<std::string>(20, "one")),
              ElementsAre(HasSubstr("one; and 8 more, which the report names case by case")));
}

TEST(TimeBudget, EndsSamplingBeforeTheRun) {
  FakeRun run(10);
  run.now = 8.9;
  EXPECT_FALSE(run.budget.is_over());
  run.now = 9.1;
  EXPECT_TRUE(run.budget.is_over());
  EXPECT_FALSE(run.budget.is_spent());
  run.now = 10;
  EXPECT_TRUE(run.budget.is_spent());
}

TEST(TimeBudget, CountsFromTheStartOfTheProcess) {
  const auto first = seconds_since_start();
  const double age = first();
  EXPECT_GT(age, 0);
  EXPECT_LT(age, 24 * 3600);
  EXPECT_GE(first(), age);
  EXPECT_GE(seconds_since_start()() + 0.02, age)
      << "a second clock has the same start, by the kernel's ticks";
}

}  // namespace
}  // namespace stbench
