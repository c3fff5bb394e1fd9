/// How many samples a micro-batch has: found by trying, remembered for each shape of sample.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace speedtorch::infinity {

struct MicroBatchOptions {
  std::int64_t fixed = 0;    ///< samples of each micro-batch, whatever happens; 0: it finds itself
  std::int64_t first = 8;    ///< samples of the first one, where it finds itself
  std::int64_t largest = 0;  ///< never more; 0: as many as the batch has
  /// A size that worked before and runs out of memory is tried once more before it is halved: somebody else
  /// may have had the memory for a moment.
  bool retry_same_size = true;
  /// After so many micro-batches below a size that had worked and then did not, that size is tried again; 0:
  /// never.
  std::int64_t grow_again_after = 1024;
};

/// One size for each key (the shape of a sample, and whether gradients are taken). While it works it doubles;
/// where memory runs out it halves, then goes half-way up once, so that what is found is within a quarter of
/// what fits.
class MicroBatchSize {
 public:
  explicit MicroBatchSize(
      MicroBatchOptions options);  ///< @throws InfinityBatchError naming what is below its least

  /// Samples of the next micro-batch, at least 1.
  [[nodiscard]] std::int64_t of(const std::string& key) const;

  /// A micro-batch of `samples` worked and left `bytes_free` of the budget beside the most that it took,
  /// `bytes_taken` (both 0: not known); fewer than none where it took more than it may. True where the size
  /// grew.
  bool worked(const std::string& key, std::int64_t samples, std::int64_t bytes_taken = 0,
              std::int64_t bytes_free = 0);

  /// The size has found itself: it works, and the next one that would be tried does not, or may not be
  /// tried. Never of a fixed one, nor where a budget alone bounds it.
  [[nodiscard]] bool settled(const std::string& key) const;

  enum class Answer { again, smaller, give_up };
  /// A micro-batch of `samples` ran out of memory: what to do.
  Answer ran_out(const std::string& key, std::int64_t samples);

  struct Entry {
    std::int64_t size = 0;        ///< of the next micro-batch
    std::int64_t good = 0;        ///< the largest that worked
    std::int64_t bad = 0;         ///< the smallest that did not; 0: none
    std::int64_t since_bad = 0;   ///< micro-batches that worked since
    bool bad_had_worked = false;  ///< before it did not
    bool tried_again = false;     ///< the size had its second chance
  };
  /// All that is remembered, as a checkpoint keeps it.
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }
  void remember(std::map<std::string, Entry> entries) { entries_ = std::move(entries); }

 private:
  Entry& entry(const std::string& key);
  [[nodiscard]] std::int64_t bounded(std::int64_t samples) const;
  MicroBatchOptions options_;
  std::map<std::string, Entry> entries_;
};

}  // namespace speedtorch::infinity
