/// The next micro-batch's samples, fetched and brought to the device while the model is at work on this
/// one's.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

/// Two buffers: the one that is in use, and the one that a thread of its own fills. On the host that is a
/// plain copy or the reading of a mapped file, by one thread, so that LibTorch's keep their cores. For a GPU
/// the samples go through pinned memory and a stream of their own, for which the model's stream waits on the
/// device (not yet run on a GPU). Used by one thread. A child that is forked from the process has no such
/// thread: there the samples are fetched when they are asked for.
class Prefetch {
 public:
  /// @throws ThreadError where no thread can be started
  Prefetch();
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// Samples of `batch` on the devices, taken over where they were fetched before; then the fetch of the
  /// `next` ones that follow begins (0: none do). What fails beforehand, for want of memory or otherwise, is
  /// fetched here and now.
  Samples take(const Batch& batch, std::int64_t first, std::int64_t count, std::int64_t next,
               at::Device inputs, at::Device targets);
  /// Forgets what was fetched: another batch comes.
  void discard();

  /// How many times the samples were fetched beforehand, by this process.
  [[nodiscard]] std::int64_t hits() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace speedtorch::infinity
