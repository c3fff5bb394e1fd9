#include "tests/reports/synthetic_runs.h"

#include <array>
#include <cmath>
#include <string>

#include "reports/statistics/statistics.h"

namespace stbench::reports {
namespace {

constexpr std::array<const char*, 5> kMethods = {"copy", "stream", "speedtorch", "index_select",
                                                 "index_select"};
constexpr std::array<double, 5> kTimes = {3.2e-3, 2.4e-3, 2.9e-3, 4.2e-3, 5.2e-3};
constexpr int kControl = 4;

/// libstdc++'s laws are not those of other libraries; these are the same everywhere.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) / 9007199254740992.0; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform()); }
  /// Student's law scaled to a standard deviation of 1.
  double tailed(double freedom) {
    double squares = 0;
    for (int i = 0; i < static_cast<int>(freedom); ++i) squares += std::pow(normal(), 2);
    return normal() / std::sqrt(squares / freedom) * std::sqrt((freedom - 2) / freedom);
  }

 private:
  std::mt19937_64 engine_;
};

/// Noise of which each value remembers the one before; the standard deviation is 1.
std::vector<double> remembered(Draw& draw, int length, double memory) {
  std::vector<double> values;
  for (double value = draw.normal(); length-- > 0;) {
    values.push_back(value);
    value = memory * value + std::sqrt(1 - memory * memory) * draw.normal();
  }
  return values;
}

Record row_of(int cell, int method) {
  Record record;
  record.id = {"transfer",
               "to",
               method == kControl ? "libtorch" : "hugepage",
               kMethods.at(static_cast<std::size_t>(method)),
               "cpu",
               "bytes",
               "int64",
               "unique",
               1'000'000,
               64 * (cell + 1),
               131'072,
               2};
  record.payload_bytes = 131'072 * record.id.dim;
  record.more = {{"group", std::int64_t{cell}}};
  return record;
}

}  // namespace

Report synthetic_run(const SyntheticMachine& machine, std::uint64_t seed,
                     const std::function<double(int cell)>& slower,
                     const std::function<double(int cell, int method)>& extra) {
  Draw draw(seed);
  Report report;
  const int methods = machine.controls ? kControl + 1 : kControl;
  report.program = "synthetic";
  const double drift = machine.drift * draw.tailed(machine.tail_freedom);
  for (int cell = 0; cell < machine.cells; ++cell) {
    const double of_cell = machine.of_cell * draw.tailed(machine.tail_freedom);
    const auto walk = remembered(draw, machine.samples, 0.9);
    for (int method = 0; method < methods; ++method) {
      const double scale =
          std::exp2((cell + method) % 3 - 1);  // a half, one, or two: the same in each process
      double of_row = machine.of_row * scale * draw.tailed(machine.tail_freedom) + extra(cell, method);
      if (machine.two_modes > 0 && draw.uniform() < 1.0 / 3) of_row += std::log1p(machine.two_modes);
      const auto noise = remembered(draw, machine.samples, machine.memory);
      Record record = row_of(cell, method);
      const double time =
          kTimes.at(static_cast<std::size_t>(method)) * (cell + 1) * (method == 2 ? slower(cell) : 1);
      for (std::size_t i = 0; i < noise.size(); ++i) {
        const double disturbed = draw.uniform() < 0.03 ? -0.2 * std::log(draw.uniform()) : 0;
        record.samples_s.push_back(
            time * std::exp(drift + of_cell + of_row + machine.noise * (walk[i] + noise[i]) + disturbed));
      }
      summarise(record);
      report.records.push_back(std::move(record));
    }
  }
  derive(report.records);
  return report;
}

SyntheticSides synthetic_sides(const SyntheticMachine& machine, std::uint64_t seed, int processes,
                               bool interleaved, double state,
                               const std::function<double(int cell)>& slower) {
  constexpr double kMemory = 0.8;  // of the machine's speed, from one process to the next
  constexpr std::array<double, 5> kShares = {0.5, 0.5, 1.5, 1, 1};
  Draw draw(seed + 7'777'777);
  const auto together = remembered(draw, 2 * processes, kMemory);
  std::vector<std::vector<double>> alone;
  for (std::size_t row = 0; row < static_cast<std::size_t>(machine.cells) * kShares.size(); ++row)
    alone.push_back(remembered(draw, 2 * processes, kMemory));
  SyntheticSides sides;
  for (int at = 0; at < 2 * processes; ++at) {
    const bool now = interleaved ? at % 2 == 1 : at >= processes;
    const auto extra = [&](int cell, int method) {
      const auto own = static_cast<std::size_t>(cell) * kShares.size() + static_cast<std::size_t>(method);
      const auto time = static_cast<std::size_t>(at);
      return machine.wander * (together[time] + alone[own][time] / 2) +
             (now ? state * kShares.at(static_cast<std::size_t>(method)) : 0);
    };
    const auto none = [](int) { return 1.0; };
    auto& side = now ? sides.now : sides.base;
    side.push_back(synthetic_run(machine, seed * 1000 + static_cast<std::uint64_t>(at),
                                 now ? slower : std::function<double(int)>(none), extra));
    side.back().started_at = "2026-01-01T00:00:" + std::to_string(10 + at) + "Z";
  }
  return sides;
}

std::vector<Report> synthetic_runs(const SyntheticMachine& machine, std::uint64_t seed, int processes,
                                   const std::function<double(int cell)>& slower) {
  std::vector<Report> reports;
  for (int process = 0; process < processes; ++process) {
    reports.push_back(synthetic_run(machine, seed * 1000 + static_cast<std::uint64_t>(process), slower));
  }
  return reports;
}

}  // namespace stbench::reports
