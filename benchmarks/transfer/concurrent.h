/// Operations on slices of a batch at the same time: by several callers, or one in each direction.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "benchmarks/transfer/caller_threads.h"
#include "benchmarks/transfer/fixture.h"
#include "benchmarks/transfer/method.h"
#include "speedtorch/tables/side_stream.h"

namespace stbench {

/// A GPU's stream beside the current one; on the CPU, work is done at once.
class Beside {
 public:
  explicit Beside(at::Device device) {
    if (device.is_cuda()) side_ = speedtorch::side_stream({device}, 1);
  }
  /// Queues what work() does after what the current stream holds so far, and beside what it gets next.
  void run(const std::function<void()>& work) {
    if (!side_) return work();
    side_->record_caller(0);
    side_->run_after_caller(0, work);
  }
  /// Makes later work on the current stream wait for it.
  void join() {
    if (side_) side_->make_caller_wait(0);
  }

 private:
  std::unique_ptr<speedtorch::SideStream> side_;
};

/// The operation of a case with several callers: each moves its own rows of the batch, in its own thread.
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
  std::vector<Beside> streams_;
};

/// A bidirectional transfer: half of a batch's rows go to the model tensor while the other half comes from
/// it. On a GPU each half has its own stream, so that the link is used in both directions. Not yet run on a
/// GPU. The fixture has two slices, whose rows are distinct: the first slice goes to the model, the second
/// comes from it.
class Bidirectional {
 public:
  Bidirectional(TransferFixture& fixture, const Method& method);

  void run(int set);
  /// Makes sure that no earlier result passes for a new one.
  void poison(int set);
  /// After run(): the model holds the first slice's rows as they were filled, and every row of the set, those
  /// that were only read among them, holds what the table was filled with.
  harness::Check verify(int set);

 private:
  TransferFixture& fixture_;
  const Method& method_;
  Operands &there_, &back_;
  Beside beside_;
};

}  // namespace stbench
