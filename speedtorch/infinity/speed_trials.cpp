#include "speedtorch/infinity/speed_trials.h"

#include <algorithm>

namespace speedtorch::infinity {
namespace {

constexpr int kRuns = 5;       ///< of a size
constexpr int kFewRuns = 3;    ///< after which a size may be called slow
constexpr int kMostRuns = 64;  ///< of all sizes; batches that became smaller may not reach the largest again
constexpr double kSlow = 1.25;
constexpr double kSame = 1.02;

/// True for a micro-batch of about this size: parts of a batch differ by a sample.
bool is_about(std::int64_t samples, std::int64_t size) { return samples <= size && 8 * samples >= 7 * size; }

}  // namespace

SpeedTrials::SpeedTrials(std::int64_t largest, std::int64_t smallest) {
  trials_.push_back({.samples = largest});
  for (std::int64_t samples = (largest + 1) / 2; samples >= smallest && samples < trials_.back().samples;
       samples = (samples + 1) / 2)
    trials_.push_back({.samples = samples});
}

double SpeedTrials::best() const {
  return std::min_element(trials_.begin(), trials_.end(),
                          [](const Trial& a, const Trial& b) { return a.best < b.best; })
      ->best;
}

bool SpeedTrials::is_slow(const Trial& trial) const {
  return trial.runs >= kFewRuns && trial.best > kSlow * best();
}

bool SpeedTrials::needs_runs(const Trial& trial) const { return trial.runs < kRuns && !is_slow(trial); }

/// The number of sizes that are compared so far: a size stays among them once it has run.
std::size_t SpeedTrials::compared() const {
  const auto leads_on = [this](const Trial& trial) { return trial.runs >= kFewRuns && !is_slow(trial); };
  std::size_t count = 1;
  while (count < trials_.size() && (trials_[count].runs > 0 || leads_on(trials_[count - 1]))) ++count;
  return count;
}

std::int64_t SpeedTrials::next(std::int64_t left) const {
  const Trial* chosen = nullptr;
  const Trial* largest_that_fits = nullptr;
  const std::size_t compared_now = compared();
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const Trial& trial = trials_[i];
    if (trial.samples > left && !is_about(left, trial.samples)) continue;
    if (!largest_that_fits) largest_that_fits = &trial;
    if (i < compared_now && needs_runs(trial) && (!chosen || trial.runs < chosen->runs)) chosen = &trial;
  }
  if (!chosen) chosen = largest_that_fits;
  return chosen ? std::min(chosen->samples, left) : left;
}

void SpeedTrials::timed(std::int64_t samples, double seconds) {
  for (Trial& trial : trials_) {
    if (!is_about(samples, trial.samples)) continue;
    ++runs_;
    ++trial.runs;
    trial.best = std::min(trial.best, seconds / static_cast<double>(samples));
    return;
  }
}

std::int64_t SpeedTrials::fastest() const {
  const auto end = trials_.begin() + static_cast<std::ptrdiff_t>(compared());
  const auto needed = [this](const Trial& trial) { return needs_runs(trial); };
  if (trials_.size() > 1 && runs_ < kMostRuns && std::any_of(trials_.begin(), end, needed)) return 0;
  return std::find_if(trials_.begin(), trials_.end(),
                      [most = kSame * best()](const Trial& trial) { return trial.best <= most; })
      ->samples;
}

}  // namespace speedtorch::infinity
