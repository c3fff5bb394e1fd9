#include "speedtorch/infinity/speed_trials.h"

#include <algorithm>

namespace speedtorch::infinity {
namespace {

/// After `kFewRuns` a size is slow if even its shortest run is longer than `kSlow` times the best median.
/// After `kRuns` it is out if each of its runs is longer than `kSame` times each run of the best.
constexpr int kFewRuns = 3, kRuns = 5;
constexpr double kSlow = 1.25, kSame = 1.02;
/// Runs of a size that is not out. In draws from the times of a convolutional net on a busy Zen 3, the median
/// of 5 runs chose a size that is more than 3 % slower than the best in 12 %, of 15 in 2 %, of 25 in 1 %. The
/// shortest of 15 did so in 29 %.
constexpr int kRunsOfNear = 25;
constexpr int kMostRuns = 192;  ///< of all sizes; batches that became smaller may not reach the largest again

/// True for a micro-batch of about this size: parts of a batch differ by a sample.
bool is_about(std::int64_t samples, std::int64_t size) { return samples <= size && 8 * samples >= 7 * size; }

}  // namespace

SpeedTrials::SpeedTrials(std::int64_t largest, std::int64_t smallest) {
  trials_.push_back({.samples = largest});
  for (std::int64_t samples = (largest + 1) / 2; samples >= smallest && samples < trials_.back().samples;
       samples = (samples + 1) / 2)
    trials_.push_back({.samples = samples});
}

const SpeedTrials::Trial& SpeedTrials::best() const {
  return *std::min_element(trials_.begin(), trials_.end(),
                           [](const Trial& a, const Trial& b) { return a.median() < b.median(); });
}

bool SpeedTrials::is_slow(const Trial& trial) const {
  return trial.runs() >= kFewRuns && trial.per_sample.front() > kSlow * best().median();
}

bool SpeedTrials::is_out(const Trial& trial) const {
  return is_slow(trial) ||
         (trial.runs() >= kRuns && trial.per_sample.front() > kSame * best().per_sample.back());
}

bool SpeedTrials::needs_runs(const Trial& trial) const {
  if (is_out(trial)) return false;
  if (trial.runs() < kRuns) return true;
  const auto is_in = [this](const Trial& other) { return other.runs() > 0 && !is_out(other); };
  return trial.runs() < kRunsOfNear && std::count_if(trials_.begin(), trials_.end(), is_in) > 1;
}

/// The number of sizes that are compared so far: a size stays among them once it has run.
std::size_t SpeedTrials::compared() const {
  const auto leads_on = [this](const Trial& trial) { return trial.runs() >= kFewRuns && !is_slow(trial); };
  std::size_t count = 1;
  while (count < trials_.size() && (trials_[count].runs() > 0 || leads_on(trials_[count - 1]))) ++count;
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
    if (i < compared_now && needs_runs(trial) && (!chosen || trial.runs() < chosen->runs())) chosen = &trial;
  }
  if (!chosen) chosen = largest_that_fits;
  return chosen ? std::min(chosen->samples, left) : left;
}

void SpeedTrials::timed(std::int64_t samples, double seconds) {
  for (Trial& trial : trials_) {
    if (!is_about(samples, trial.samples)) continue;
    ++runs_;
    const double time = seconds / static_cast<double>(samples);
    trial.per_sample.insert(std::upper_bound(trial.per_sample.begin(), trial.per_sample.end(), time), time);
    return;
  }
}

std::int64_t SpeedTrials::fastest() const {
  const auto end = trials_.begin() + static_cast<std::ptrdiff_t>(compared());
  const auto needed = [this](const Trial& trial) { return needs_runs(trial); };
  if (trials_.size() > 1 && runs_ < kMostRuns && std::any_of(trials_.begin(), end, needed)) return 0;
  return std::find_if(trials_.begin(), trials_.end(),
                      [most = kSame * best().median()](const Trial& trial) { return trial.median() <= most; })
      ->samples;
}

}  // namespace speedtorch::infinity
