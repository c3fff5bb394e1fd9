#include "speedtorch/infinity/speed_trials.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace speedtorch::infinity {
namespace {

constexpr int kFewRuns = 3;  ///< after which a size may be called slow
constexpr double kSlow = 1.25;
/// After these a size is out if each of its runs is longer than `kSame` times each run of the best.
constexpr int kRuns = 5;
constexpr double kSame = 1.02;
/// Of a size that is not out. Drawn from the times of a convolutional net on a busy Zen 3, the median of 5
/// runs chose a size that is more than 3 % slower than the best in 12 % of the draws, of 15 in 2 %, of 25 in
/// 1 %. The shortest of 15 did so in 29 %.
constexpr int kRunsOfNear = 25;
constexpr int kMostRuns = 192;  ///< of all sizes; batches that became smaller may not reach the largest again

/// True for a micro-batch of about this size: parts of a batch differ by a sample.
bool is_about(std::int64_t samples, std::int64_t size) { return samples <= size && 8 * samples >= 7 * size; }

}  // namespace

double SpeedTrials::Trial::shortest() const {
  return *std::min_element(per_sample.begin(), per_sample.end());
}

double SpeedTrials::Trial::longest() const { return *std::max_element(per_sample.begin(), per_sample.end()); }

double SpeedTrials::Trial::median() const {
  if (runs() == 0) return std::numeric_limits<double>::infinity();
  std::vector<double> ordered = per_sample;
  const auto middle = ordered.begin() + (std::ssize(ordered) - 1) / 2;
  std::nth_element(ordered.begin(), middle, ordered.end());
  return *middle;
}

const SpeedTrials::Trial& SpeedTrials::best() const {
  return *std::min_element(trials_.begin(), trials_.end(),
                           [](const Trial& a, const Trial& b) { return a.median() < b.median(); });
}

SpeedTrials::SpeedTrials(std::int64_t largest, std::int64_t smallest) {
  trials_.push_back({.samples = largest});
  for (std::int64_t samples = (largest + 1) / 2; samples >= smallest && samples < trials_.back().samples;
       samples = (samples + 1) / 2)
    trials_.push_back({.samples = samples});
}

bool SpeedTrials::is_slow(const Trial& trial) const {
  return trial.runs() >= kFewRuns && trial.shortest() > kSlow * best().median();
}

bool SpeedTrials::is_out(const Trial& trial) const {
  return is_slow(trial) || (trial.runs() >= kRuns && trial.shortest() > kSame * best().longest());
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
    trial.per_sample.push_back(seconds / static_cast<double>(samples));
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
