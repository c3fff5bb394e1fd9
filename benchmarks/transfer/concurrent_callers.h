/// The operation of a case with several callers: each moves its own rows of the batch, in its own thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/transfer/caller_threads.h"
#include "benchmarks/transfer/fixture.h"
#include "benchmarks/transfer/own_stream.h"

namespace stbench {

class ConcurrentCallers {
 public:
  /// One caller's operation, on its slice of the operands.
  using Operation = std::function<void(Operands& slice, int set)>;

  /// @param fixture has a slice for each caller
  ConcurrentCallers(TransferFixture& fixture, std::shared_ptr<CallerThreads> threads);

  /// Rounds over rotating sets from `first` on. In each round all callers are on the same set, so that they
  /// never write the same row at the same time. On a GPU each caller has a stream and waits for it.
  /// @returns the seconds of all rounds
  double run(int first, int rounds, const Operation& operation);

 private:
  TransferFixture& fixture_;
  std::shared_ptr<CallerThreads> threads_;
  std::vector<OwnStream> streams_;
};

}  // namespace stbench
