/// Who wants to know how training goes: progress bars, files, graphical interfaces, one's own code.
#pragma once

#include <cstdint>
#include <string>

#include "speedtorch/infinity/batch_result.h"

namespace speedtorch::infinity {

/// Where training is.
struct Place {
  std::int64_t epoch = 0;   ///< from 0
  std::int64_t epochs = 0;  ///< that train() was asked for, counted from 0 too; 0 outside of it
  std::int64_t batch = 0;   ///< in this epoch, from 0
  std::int64_t step = 0;    ///< steps that were made so far
};

/// A batch after its gradients were made.
struct BatchRecord {
  Place place;
  const Batch* batch = nullptr;
  const BatchResult* result = nullptr;
  double seconds = 0;  ///< of forward and backward
};

/// Means are weighted by samples.
struct EpochRecord {
  Place place;
  double loss = 0;
  std::vector<double> of_parts;  ///< the criterion's, where it has several
  std::int64_t samples = 0;
  std::int64_t batches = 0;
  std::int64_t micro_batches = 0;
  std::int64_t largest_micro_batch = 0;  ///< samples
  std::int64_t refusals = 0;             ///< attempts that ran out of memory
  double seconds = 0;
};

/// Called from the thread that trains, in the order of these functions; what one throws ends training, and
/// InfinityBatch::epoch() says where it goes on. By default each does nothing.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void train_begins(const Place&) {}
  virtual void epoch_begins(const Place&) {}
  virtual void batch_begins(const Place&, const Batch&) {}
  /// Also of eval() and of batch(). It must not begin a batch itself.
  virtual void micro_batch(const Place&, const MicroBatchProgress&) {}
  /// The gradients are there and the step comes next: the place to clip them.
  virtual void batch_ends(const BatchRecord&) {}
  virtual void stepped(const Place&) {}
  /// Training stands at the begin of the next epoch, and may be saved.
  virtual void epoch_ends(const EpochRecord&) {}
  virtual void train_ends(const Place&) {}
  /// True ends training after this step.
  virtual bool stop() { return false; }
};

}  // namespace speedtorch::infinity
