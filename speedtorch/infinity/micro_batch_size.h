/// Finds the number of samples of a micro-batch by trial, per shape of sample.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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
};

/// One size per key (the shape of a sample, and whether gradients are computed). The size doubles while it
/// works. When memory runs out it halves, and then grows half-way once. The result is within a quarter of
/// what fits.
class MicroBatchSize {
 public:
  /// @throws InfinityBatchError naming an option that is below its minimum
  explicit MicroBatchSize(MicroBatchOptions options);

  /// The number of samples of the next micro-batch, at least 1.
  [[nodiscard]] std::int64_t of(const std::string& key) const;

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
    std::int64_t size = 0;        ///< of the next micro-batch
    std::int64_t good = 0;        ///< the largest that worked
    std::int64_t bad = 0;         ///< the smallest that failed; 0: none
    std::int64_t since_bad = 0;   ///< micro-batches that worked since
    bool bad_had_worked = false;  ///< it had worked before it failed
    bool tried_again = false;     ///< the size was retried once
  };
  /// All entries, as stored in a checkpoint.
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  void remember(std::map<std::string, Entry> entries) { entries_ = std::move(entries); }

 private:
  Entry& entry(const std::string& key);
  [[nodiscard]] std::int64_t bounded(std::int64_t samples) const;
  MicroBatchOptions options_;
  std::map<std::string, Entry> entries_;
};

}  // namespace speedtorch::infinity
