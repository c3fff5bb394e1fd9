/// Takes the samples in seeded, interleaved rounds over all cases of a group. Results are checked whole
/// before the first and after the last sample, and in part after each; each cell has its own stop rule.
///
/// Rounds cancel the drift of the machine's speed: equal cases measured in turn differ by up to 40 %.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/benchmark_case.h"

namespace stbench::harness {

constexpr int index_sets = 8;  ///< sets rotate, so that the same rows are not hot

/// The samples and the blocks of single runs whose results are checked: of a block that of the last run. The
/// first and the last run of a case are checked in every row.
enum class Verify {
  first,    ///< no sample: the operands stay as they are from sample to sample
  sampled,  ///< of each sample some rows, drawn after it ran; before it, operands change
  every,    ///< of each sample all rows; before it, operands change and results are poisoned
};

/// The stop rule and its limits.
struct SamplingRules {
  int warmup = 1;  ///< untimed runs before the first sample, the first of them verified
  int floor = 11;  ///< samples at the least, unless `most` is less
  int most = 61;   ///< samples at the most
  double half_width =
      0.10;             ///< a cell is done when every case's interval is within this fraction of its median
  double seconds = 30;  ///< time for the group; it ends with the first round past this and the floor
  Verify verify = Verify::sampled;
  double clock_step_s = 0;  ///< a sample below 1000 of these is the mean of back-to-back runs
  std::uint64_t seed = 0;   ///< of the order within the rounds
  int latency_runs = 2000;  ///< single runs of a case whose latency is asked for, at the most
  double latency_seconds =
      1;  ///< for all of them in a group; a case with fewer than fewest_latencies has none
};

/// Fewer single runs give no 99 % quantile.
constexpr int fewest_latencies = 100;

/// Callbacks of the sampler.
struct SamplerHooks {
  std::function<double()> now_s;  ///< a clock, seconds; the steady clock if empty
  std::function<bool()> stop;     ///< asked between samples: true ends the sampling
  std::function<void(const BenchmarkCase&, std::string_view phase)> enter;  ///< before a step of a case
  std::function<void()> leave;                                              ///< after it
  /// Returns a counter that grows if the case's device was throttled since the last call; nullopt if unknown.
  /// Called before and after each sample, untimed.
  std::function<std::optional<std::int64_t>(const BenchmarkCase&)> throttle_count;
  std::function<void(double fraction, std::string_view what)> progress;  ///< of this group, 0 to 1
};

/// Measures a group: every case of one or more cells that are measured together. Returns one record per case
/// in the group's order, with samples and summaries; copy_fraction and speedup are filled in later. If the
/// group is interrupted, it returns the cases that have `floor` samples. Cases with `latency` also have the
/// median and the 99 % quantile of single runs (docs/schema.md describes the columns). An exception makes a
/// case `failed`, a mismatch makes it `wrong`; neither has numbers.
std::vector<reports::Record> measure(std::vector<BenchmarkCase>& group, const SamplingRules& rules,
                                     const SamplerHooks& hooks);

/// The same with one span per step: measure() calls it under a trace or a profiler.
std::vector<reports::Record> measure_with_spans(std::vector<BenchmarkCase>& group, const SamplingRules& rules,
                                                const SamplerHooks& hooks);

}  // namespace stbench::harness
