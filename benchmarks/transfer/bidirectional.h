/// A bidirectional transfer: half of a batch's rows go to the model tensor while the other half comes from
/// it. On a GPU each half has its own stream, so that the link is used in both directions. Not yet run on a
/// GPU.
#pragma once

#include "benchmarks/transfer/fixture.h"
#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/own_stream.h"

namespace stbench {

/// On a fixture with two slices, whose rows are distinct: the first slice goes to the model, the second comes
/// from it.
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
  OwnStream beside_;
};

}  // namespace stbench
