/// How often a comparison raises a false alarm, how often it finds a planted slowdown, and whether those that
/// are green would have seen one, had the same pair had it: pairs of synthetic sides by the noise of the
/// machine and by design. Prints the table of docs/compare.md (scripts/audit-compare writes it there), and
/// holds it against the document.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "reports/compare/calibration.h"
#include "reports/compare/comparison.h"
#include "reports/compare/conclusion.h"
#include "reports/files/file.h"
#include "tests/paths.h"
#include "tests/reports/synthetic_runs.h"

namespace stbench::reports {
namespace {

#ifdef STBENCH_LONG
constexpr bool kLong = true;
#else
constexpr bool kLong = false;
#endif
constexpr int kPairs = kLong ? 1000 : 150, kPowerPairs = kLong ? 200 : 20;
constexpr int kPlantedEvery = 4;  // cells
constexpr double kMustSee = 0.1;

struct Noise {
  const char* name;
  SyntheticMachine machine;
  double state = 0;  ///< of the machine, on the side NEW
};

std::vector<Noise> noises() {
  SyntheticMachine quiet;
  quiet.drift = 0.01, quiet.of_cell = 0.005, quiet.of_row = 0.004, quiet.noise = 0.015;
  SyntheticMachine vm;
  SyntheticMachine two_modes = quiet;
  two_modes.two_modes = 0.15;
  SyntheticMachine drifting = quiet;
  drifting.wander = 0.06;
  SyntheticMachine tails = vm;
  tails.tail_freedom = 3;
  std::vector<Noise> all = {{"quiet", quiet},
                            {"virtual machine", vm},
                            {"two modes", two_modes},
                            {"drift", drifting},
                            {"heavy tails", tails},
                            {"state shift, quiet", quiet, 0.2},
                            {"state shift, virtual machine", vm, 0.4}};
  for (Noise& noise : all) noise.machine.controls = true;
  return all;
}

struct Design {
  const char* name;
  int processes;
  int calibrated;  ///< processes of the calibration, 0 without
  bool interleaved;
};

constexpr Design kDesigns[] = {{"1 × 1", 1, 0, false},
                               {"1 × 1, calibrated by 10", 1, 10, false},
                               {"5 × 5", 5, 0, false},
                               {"5 × 5, interleaved", 5, 0, true}};

struct Audited {
  Noise noise;
  Design design;
};

void PrintTo(const Audited& audited, std::ostream* stream) {
  *stream << audited.noise.name << ", " << audited.design.name;
}

bool planted(const ComparedCase& compared) {
  return compared.id.method == "speedtorch" && (compared.id.dim / 64 - 1) % kPlantedEvery == 0;
}

/// One comparison, the rows of every fourth cell's speedtorch so much slower in NEW.
Comparison one(const Audited& audited, int pair, double slower, double state) {
  const auto& [noise, design] = audited;
  const auto seed = static_cast<std::uint64_t>(pair) * 3 +
                    static_cast<std::uint64_t>(design.processes) * 100'000 +
                    static_cast<std::uint64_t>(design.calibrated) * 7'000'000;
  CalibratedSpreads spreads;
  if (design.calibrated > 0) {
    const auto known = synthetic_sides(noise.machine, seed + 2, design.calibrated / 2, true);
    std::vector<Report> all = known.base;
    all.insert(all.end(), known.now.begin(), known.now.end());
    spreads = CalibratedSpreads(spreads_of(all));
  }
  const auto sides = synthetic_sides(noise.machine, seed, design.processes, design.interleaved, state,
                                     [&](int cell) { return cell % kPlantedEvery == 0 ? slower : 1.0; });
  return compare(sides.base, sides.now, {.must_see = kMustSee}, &spreads);
}

/// Comparisons with planted slowdowns.
struct Power {
  int rows = 0;   ///< that were slowed down
  int found = 0;  ///< of them, called slower
  int green = 0;  ///< comparisons that end with exit status 0

  void add(const Comparison& comparison) {
    green += conclude(comparison, {.must_see = kMustSee}, false).exit_status == 0 ? 1 : 0;
    for (const ComparedCase& compared : comparison.cases) {
      if (!planted(compared)) continue;
      ++rows;
      found += compared.verdict == Verdict::slower ? 1 : 0;
    }
  }
  [[nodiscard]] double found_share() const { return static_cast<double>(found) / rows; }
};

Power power(const Audited& audited, double slower) {
  Power power;
  for (int pair = 0; pair < kPowerPairs; ++pair) power.add(one(audited, kPairs + pair, slower, 0));
  return power;
}

/// The percentages of a row of the table, behind its two names.
std::vector<double> percentages(const std::string& row) {
  std::vector<double> found;
  std::istringstream cells(row);
  for (std::string cell; std::getline(cells, cell, '|');) {
    if (cell.ends_with(" % ")) found.push_back(std::stod(cell));
  }
  return found;
}

/// The row of docs/compare.md that begins as this one; empty if there is none.
std::string documented(const std::string& begin) {
  std::istringstream lines(read_file(stbench::test::source_folder() + "/docs/compare.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line;
  }
  return {};
}

class CompareAudit : public testing::TestWithParam<Audited> {};

TEST_P(CompareAudit, RaisesFewFalseAlarmsAndIsNeverGreenWhenBlind) {
  const Audited& audited = GetParam();
  int alarmed = 0, moved = 0, green = 0;
  Power where_green;
  for (int pair = 0; pair < kPairs; ++pair) {
    const Comparison comparison = one(audited, pair, 1, audited.noise.state);
    const Conclusion conclusion = conclude(comparison, {.must_see = kMustSee}, false);
    alarmed += conclusion.outcome == Outcome::slower || count(comparison, Verdict::faster) > 0 ? 1 : 0;
    moved += state_differs(comparison) ? 1 : 0;
    if (conclusion.exit_status != 0) continue;
    ++green;
    where_green.add(one(audited, pair, 1 + kMustSee, audited.noise.state));
  }
  EXPECT_EQ(where_green.green, 0) << "green beside a slowdown";
  if (green > 0) {
    EXPECT_GE(where_green.found_share(), 0.8) << "green although blind";
  }
  const std::string begin = fmt::format("| {} | {} |", audited.noise.name, audited.design.name);
  std::string row = fmt::format("{} {:.1f} % | {:.1f} % | {:.0f} % |", begin, 100.0 * alarmed / kPairs,
                                100.0 * moved / kPairs, 100.0 * green / kPairs);
  for (const double slower : {1.02, 1.05, 1.1, 1.3}) {
    const Power at = power(audited, slower);
    row += fmt::format(" {:.0f} % |", 100 * at.found_share());
    if (slower >= 1 + kMustSee) {
      EXPECT_EQ(at.green, 0) << "green beside a slowdown";
    }
  }
  row += green > 0 ? fmt::format(" {:.0f} % |", 100 * where_green.found_share()) : " |";
  std::puts(row.c_str());
  if (!kLong) {  // as documented; another C library may round a sample otherwise, and turn a verdict
    EXPECT_THAT(percentages(row), testing::Pointwise(testing::DoubleNear(2), percentages(documented(begin))))
        << "scripts/audit-compare renews docs/compare.md";
  }
  if (audited.noise.state == 0) {
    EXPECT_LE(alarmed, kPairs / 100 + (kLong ? 0 : 1));
  } else if (audited.design.processes > 1) {
    EXPECT_GE(moved, kPairs * 95 / 100);
  }
}

std::vector<Audited> all_audited() {
  std::vector<Audited> all;
  for (const Noise& noise : noises()) {
    for (const Design& design : kDesigns) all.push_back({noise, design});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(NoisesAndDesigns, CompareAudit, testing::ValuesIn(all_audited()),
                         [](const auto& audited) { return "Pair" + std::to_string(audited.index); });

}  // namespace
}  // namespace stbench::reports
