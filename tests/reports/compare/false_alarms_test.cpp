/// How often two sides of the same thing are taken for different, and how often a planted slowdown is found:
/// 1000 pairs of synthetic reports a design, at the defaults. Prints the table of docs/compare.md.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include "reports/compare/comparison.h"

#include "reports/compare/calibration.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

struct Design {
  const char* name;
  int base, now;   ///< processes a side
  int calibrated;  ///< processes of the calibration, 0 without
  const char* metric;
  double drift;  ///< of the whole process
};

void PrintTo(const Design& design, std::ostream* stream) { *stream << design.name; }

constexpr int kPairs = 1000;
constexpr int kPlantedEvery = 4;  // cells

bool planted(const ComparedCase& compared) {
  return compared.id.method == "speedtorch" && (compared.id.dim / 64 - 1) % kPlantedEvery == 0;
}

bool alarm(const ComparedCase& compared) {
  return compared.verdict == Verdict::slower || compared.verdict == Verdict::faster;
}

/// One comparison of the design, the rows of every fourth cell's speedtorch so much slower on the new side.
Comparison one(const Design& design, const SyntheticMachine& machine, int pair, double slower) {
  const auto seed = static_cast<std::uint64_t>(pair) * 3 + static_cast<std::uint64_t>(design.base) * 100'000 +
                    static_cast<std::uint64_t>(design.calibrated) * 7'000'000;
  CalibratedSpreads spreads;
  if (design.calibrated > 0)
    spreads = CalibratedSpreads(spreads_of(synthetic_runs(machine, seed + 2, design.calibrated)));
  return compare(synthetic_runs(machine, seed, design.base),
                 synthetic_runs(machine, seed + 1, design.now,
                                [&](int cell) { return cell % kPlantedEvery == 0 ? slower : 1.0; }),
                 {.metric = design.metric}, &spreads);
}

/// The share of planted rows that are called slower.
double power(const Design& design, const SyntheticMachine& machine, double slower) {
  constexpr int kPowerPairs = 60;
  int rows = 0, found = 0;
  for (int pair = 0; pair < kPowerPairs; ++pair) {
    for (const ComparedCase& compared : one(design, machine, kPairs + pair, slower).cases) {
      if (!planted(compared)) continue;
      ++rows;
      found += compared.verdict == Verdict::slower ? 1 : 0;
    }
  }
  return static_cast<double>(found) / rows;
}

class FalseAlarms : public testing::TestWithParam<Design> {};

TEST_P(FalseAlarms, AreAtMostOneInAHundredReports) {
  const Design& design = GetParam();
  SyntheticMachine machine;
  machine.drift = design.drift;
  int alarmed = 0, rows = 0, alarmed_rows = 0, unresolved = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    int of_pair = 0;
    for (const ComparedCase& compared : one(design, machine, pair, 1).cases) {
      of_pair += alarm(compared) ? 1 : 0;
      unresolved += compared.verdict == Verdict::unresolved ? 1 : 0;
      ++rows;
    }
    alarmed_rows += of_pair;
    alarmed += of_pair > 0 ? 1 : 0;
  }
  EXPECT_LE(alarmed, kPairs / 100);
  ASSERT_GT(rows, 0);
  SyntheticMachine steady = machine;
  steady.of_row = 0.005, steady.noise = 0.02;
  const double all = rows;
  std::printf("| %s | %.1f %% | %.3f %% | %.0f %% |", design.name, 100.0 * alarmed / kPairs,
              100 * alarmed_rows / all, 100 * unresolved / all);
  for (const SyntheticMachine& shown : {machine, steady}) {
    for (const double slower : {1.05, 1.1, 1.2})
      std::printf(" %.0f %% |", 100 * power(design, shown, slower));
  }
  std::printf("\n");
}

#ifdef STBENCH_LONG
const std::vector<Design> designs = {{"5 and 5, calibrated by 10", 5, 5, 10, "auto", 0.05},
                                     {"10 and 10", 10, 10, 0, "auto", 0.05},
                                     {"5 and 5, by time, much drift", 5, 5, 0, "time", 0.1}};
#else
const std::vector<Design> designs = {{"1 and 1", 1, 1, 0, "auto", 0.05},
                                     {"1 and 1, calibrated by 10", 1, 1, 10, "auto", 0.05},
                                     {"3 and 3", 3, 3, 0, "auto", 0.05},
                                     {"5 and 5", 5, 5, 0, "auto", 0.05}};
#endif

INSTANTIATE_TEST_SUITE_P(Designs, FalseAlarms, testing::ValuesIn(designs),
                         [](const auto& design) { return "Design" + std::to_string(design.index); });

}  // namespace
}  // namespace stbench::reports
