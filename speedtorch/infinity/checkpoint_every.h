/// A listener that saves training while it runs.
#pragma once

#include <cstdint>
#include <string>

#include "speedtorch/infinity/infinity_batch.h"

namespace speedtorch::infinity {

/// Calls InfinityBatch::save() after every `steps` steps.
class CheckpointEvery final : public Listener {
 public:
  /// @throws InfinityBatchError if `steps` is below 1
  CheckpointEvery(InfinityBatch& training, std::string path, std::int64_t steps)
      : training_(training), path_(std::move(path)), steps_(steps) {
    if (steps < 1)
      throw InfinityBatchError("a checkpoint every " + std::to_string(steps) + " steps; take 1 or more");
  }
  void stepped(const Place& place) override {
    if (place.step % steps_ == 0) training_.save(path_);
  }

 private:
  InfinityBatch& training_;
  std::string path_;
  std::int64_t steps_;
};

}  // namespace speedtorch::infinity
