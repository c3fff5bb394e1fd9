/// The operation of a case with several callers: each moves its own rows of the batch, in a thread of its
/// own.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/transfer/arena.h"
#include "benchmarks/transfer/caller_threads.h"
#include "benchmarks/transfer/own_stream.h"

namespace stbench {

class ConcurrentCallers {
 public:
  /// One caller's operation, on its part of the arena.
  using Operation = std::function<void(Arena& part, int set)>;

  /// @param arena has a part for each caller
  ConcurrentCallers(Arena& arena, std::shared_ptr<CallerThreads> callers);

  /// Rounds over rotating sets from `first` on, all callers on the same set at a time: so they never write
  /// the same row at once. Returns the seconds of all rounds. On a GPU each caller has a stream and waits for
  /// it.
  double run(int first, int rounds, const Operation& operation);

 private:
  Arena& arena_;
  std::shared_ptr<CallerThreads> callers_;
  std::vector<OwnStream> streams_;
};

}  // namespace stbench
