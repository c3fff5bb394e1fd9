/// Fetches the samples of the next micro-batch, and copies them to the device, while the model runs.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// Double buffering: one buffer is in use, and a thread fills the other. On the host this thread copies or
/// reads a mapped file; it uses one core, so that LibTorch's threads keep theirs. For a GPU, samples pass
/// through pinned memory and a separate stream, for which the model's stream waits on the device (not yet run
/// on a GPU).
///
/// Not thread-safe. A forked child has no such thread and fetches samples on demand.
class Prefetch {
 public:
  /// @throws ThreadError if no thread can be started
  Prefetch();
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// Returns samples [first, first + count) of `batch` on the devices: the prefetched ones if they are these.
  /// Then starts to fetch the `next` samples after them; 0: none. If prefetching failed, fetches again here,
  /// which reports the error.
  Samples take(const Batch& batch, std::int64_t first, std::int64_t count, std::int64_t next,
               at::Device inputs, at::Device targets);
  /// Discards what was prefetched, before another batch.
  void discard();

  /// The number of micro-batches that were prefetched by this process.
  [[nodiscard]] std::int64_t hits() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace speedtorch::infinity
