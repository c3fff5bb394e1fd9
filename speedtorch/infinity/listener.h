/// Callbacks during training: progress bars, files, graphical interfaces, user code.
#pragma once

#include <cstdint>

#include "speedtorch/infinity/batch_result.h"

namespace speedtorch::infinity {

/// The position of training.
struct Place {
  std::int64_t epoch = 0;   ///< from 0
  std::int64_t epochs = 0;  ///< the end of the current train() call, in epochs from 0; 0 outside of train()
  std::int64_t batch = 0;   ///< in this epoch, from 0
  std::int64_t step = 0;    ///< steps done in total
};

/// A batch whose gradients are complete.
struct BatchRecord {
  Place place;
  const Batch* batch = nullptr;
  const BatchResult* result = nullptr;
  double seconds = 0;  ///< of forward and backward pass
};

/// Means are weighted by samples.
struct EpochRecord {
  Place place;
  double loss = 0;
  std::vector<double> of_parts;  ///< one loss per part of the criterion; empty if it has one part
  std::int64_t samples = 0;
  std::int64_t batches = 0;
  std::int64_t micro_batches = 0;
  std::int64_t largest_micro_batch = 0;  ///< samples
  std::int64_t refusals = 0;             ///< attempts that ran out of memory
  double seconds = 0;
};

/// Called from the training thread, in the order of these functions. An exception ends training;
/// InfinityBatch::epoch() says where it resumes. The default of each function is a no-op.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void train_begins(const Place&) {}
  virtual void epoch_begins(const Place&) {}
  virtual void batch_begins(const Place&, const Batch&) {}
  /// Called in eval() and batch() too. Must not begin a batch.
  virtual void micro_batch(const Place&, const MicroBatchProgress&) {}
  /// The gradients are complete and the step follows: clip gradients here.
  virtual void batch_ends(const BatchRecord&) {}
  virtual void stepped(const Place&) {}
  /// Training is at the beginning of the next epoch and may be saved.
  virtual void epoch_ends(const EpochRecord&) {}
  virtual void train_ends(const Place&) {}
  /// Return true to end training after this step.
  virtual bool stop() { return false; }
};

}  // namespace speedtorch::infinity
