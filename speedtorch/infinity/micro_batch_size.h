/// Finds the number of samples of a micro-batch by trial, per shape of sample.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "speedtorch/infinity/speed_trials.h"

namespace speedtorch::infinity {

struct MicroBatchOptions {
  std::int64_t fixed = 0;    ///< samples of every micro-batch; 0: found by trial
  std::int64_t first = 8;    ///< samples of the first trial
  std::int64_t largest = 0;  ///< maximum; 0: the size of the batch
  /// Retry a size that worked before once before it is halved: another process may have used the memory for a
  /// moment.
  bool retry_same_size = true;
  /// Try a size again that had worked and then failed, after this many smaller micro-batches; 0: never.
  std::int64_t grow_again_after = 1024;
  /// Choose the fastest of the sizes that fit, not below `first`; false: the largest. Times differ from run
  /// to run, so the size may too, and with it roundings and random draws. While LibTorch's deterministic
  /// algorithms are on (infinity::determinize), the largest is taken.
  bool by_speed = true;
  /// Seconds of the clock that times micro-batches; empty: std::chrono::steady_clock. For tests.
  std::function<double()> clock = {};
};

/// One size per key (the shape of a sample, and whether gradients are computed). The size doubles while it
/// works. When memory runs out it halves, and then grows half-way once. The result is within a quarter of
/// what fits. Then the fastest of the sizes up to it is chosen, by the times of the micro-batches that
/// follow.
class MicroBatchSize {
 public:
  /// @throws InfinityBatchError naming an option that is below its minimum
  explicit MicroBatchSize(MicroBatchOptions options);

  /// The known number of samples that memory permits; at least 1.
  [[nodiscard]] std::int64_t of(const std::string& key) const;

  /// The number of samples of the next micro-batch if `left` samples of a batch of `batch` are left. At most
  /// of(key) and `left`. Once the size is final, the rest is cut into equal parts instead of full ones and a
  /// remainder (the suite's MLP, 2048 samples: 3 × 683 took 1.2 % less time than 768 + 768 + 512).
  std::int64_t next(const std::string& key, std::int64_t batch, std::int64_t left);
  /// True if sizes are being compared by their times, which timed() takes.
  [[nodiscard]] bool compares(const std::string& key) const { return trials_.count(key) > 0; }
  /// Reports the seconds that a micro-batch took.
  void timed(const std::string& key, std::int64_t samples, double seconds);

  /// Reports that a micro-batch of `samples` worked. Returns true if the size grew.
  /// @param bytes_taken its peak; 0: unknown
  /// @param bytes_free what the budget has left beside the peak; negative if it was exceeded
  bool worked(const std::string& key, std::int64_t samples, std::int64_t bytes_taken = 0,
              std::int64_t bytes_free = 0);

  /// True if the size works and the next larger one that would be tried failed or is not permitted. False for
  /// a fixed size, and if only a budget limits it.
  [[nodiscard]] bool settled(const std::string& key) const;

  enum class Answer { again, smaller, give_up };
  /// Reports that a micro-batch of `samples` ran out of memory. Returns what to do.
  Answer ran_out(const std::string& key, std::int64_t samples);

  struct Entry {
    std::int64_t size = 0;         ///< that memory permits, or that is to be tried
    std::int64_t good = 0;         ///< the largest that worked
    std::int64_t bad = 0;          ///< the smallest that failed; 0: none
    std::int64_t since_bad = 0;    ///< micro-batches that worked since
    bool bad_had_worked = false;   ///< it had worked before it failed
    bool tried_again = false;      ///< the size was retried once
    std::int64_t fastest = 0;      ///< the size chosen by speed; 0: not chosen yet
    std::int64_t compared_to = 0;  ///< the largest of the sizes it was chosen from
  };
  /// All entries, as stored in a checkpoint.
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  void remember(std::map<std::string, Entry> entries);

 private:
  Entry& entry(const std::string& key);
  [[nodiscard]] std::int64_t bounded(std::int64_t samples) const;
  [[nodiscard]] bool goes_by_speed() const;
  SpeedTrials& trials(const std::string& key, std::int64_t largest);
  MicroBatchOptions options_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, SpeedTrials> trials_;  ///< of the keys whose sizes are being compared
};

}  // namespace speedtorch::infinity
