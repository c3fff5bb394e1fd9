/// The result of one batch, and the progress report of one micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "speedtorch/infinity/batch.h"

namespace speedtorch::infinity {

struct BatchResult {
  double loss = 0;               ///< of the whole batch
  std::vector<double> of_parts;  ///< one loss per part of the criterion; empty if it has one part
  Tensors outputs;               ///< of the whole batch, detached; empty unless requested
  Tensors targets;               ///< of the whole batch; empty unless requested
  std::int64_t samples = 0;
  std::int64_t micro_batches = 0;
  std::int64_t largest_micro_batch = 0;  ///< samples
  std::int64_t refusals = 0;             ///< attempts that ran out of memory
};

/// Reported after each micro-batch that worked, and after each that ran out of memory.
struct MicroBatchProgress {
  std::int64_t first = 0;  ///< sample
  std::int64_t count = 0;  ///< samples
  bool worked = true;
};

}  // namespace speedtorch::infinity
