/// What it takes to run the micro-batches of a batch again as they ran the first time. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "speedtorch/infinity/batch_statistics.h"
#include "speedtorch/infinity/micro_batches.h"
#include "speedtorch/infinity/random_state.h"
#include "speedtorch/infinity/undo.h"

namespace speedtorch::infinity {

struct MicroBatches::Replay {
  struct Step {
    std::int64_t first;
    std::int64_t count;
    RandomState random;  ///< before it
  };
  Batch batch;
  std::shared_ptr<const Undo> before = {};  ///< the buffers, when the first pass began
  bool drew_random = false;  ///< then the steps must be the same again, else the micro-batches may differ
  std::vector<Step> steps = {};
  std::shared_ptr<BatchStatistics> statistics = {};  ///< null: nothing is normalised by the batch's
  std::int64_t micro_batches = 0;                    ///< of which the outputs were made
  Tensors outputs = {};
  Tensors targets = {};
};

}  // namespace speedtorch::infinity
