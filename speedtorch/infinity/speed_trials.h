/// Chooses the fastest of some micro-batch sizes, from the times of micro-batches of a training.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace speedtorch::infinity {

/// Compares `largest`, a half of it, a quarter, and so on. Nothing runs for the comparison alone: next() says
/// which size the next micro-batch should have, and timed() takes what it took. A smaller size is tried only
/// while the one before it is not clearly slower than the best. Each size is run several times, the sizes in
/// turn, and judged by the median of its times per sample: on a shared processor some runs are far longer and
/// some far shorter than the others. A size that is clearly slower than the best runs no more. Sizes that are
/// near each other run more often.
class SpeedTrials {
 public:
  /// Sizes below `smallest` are not tried, except for `largest` itself.
  SpeedTrials(std::int64_t largest, std::int64_t smallest);

  [[nodiscard]] std::int64_t largest() const { return trials_.front().samples; }
  /// The size of the next micro-batch if `left` samples are left; at most `left`.
  [[nodiscard]] std::int64_t next(std::int64_t left) const;
  /// Reports the time of a micro-batch of any size. Sizes that are not compared are ignored.
  void timed(std::int64_t samples, double seconds);
  /// The largest size that is at most 2 % slower than the fastest, because fewer micro-batches cost less per
  /// batch. 0 while more runs are needed.
  [[nodiscard]] std::int64_t fastest() const;

 private:
  struct Trial {
    std::int64_t samples = 0;
    std::vector<double> per_sample = {};  ///< seconds of each run, in order of length

    [[nodiscard]] int runs() const { return static_cast<int>(per_sample.size()); }
    [[nodiscard]] double median() const {
      return runs() == 0 ? std::numeric_limits<double>::infinity() : per_sample[(per_sample.size() - 1) / 2];
    }
  };
  [[nodiscard]] const Trial& best() const;
  [[nodiscard]] bool is_slow(const Trial& trial) const;
  [[nodiscard]] bool is_out(const Trial& trial) const;
  [[nodiscard]] bool needs_runs(const Trial& trial) const;
  [[nodiscard]] std::size_t compared() const;

  std::vector<Trial> trials_;  ///< from the largest to the smallest
  int runs_ = 0;
};

}  // namespace speedtorch::infinity
