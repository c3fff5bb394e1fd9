/// Both ways at once: half of a batch's rows go to the model tensor while the other half comes from it. On a
/// GPU the two are on streams of their own, so that the link is used both ways. Not yet run on a GPU.
#pragma once

#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/own_stream.h"

namespace stbench {

/// Of an arena with two parts, whose rows are distinct: the first part goes to the model, the second from it.
class Bidirectional {
 public:
  Bidirectional(Arena& arena, const Method& method);

  void run(int set);
  /// Makes sure that nothing old passes for a result.
  void poison(int set);
  /// After run(): the model holds the first part's rows as they were filled, and every row of the set, those
  /// that were only read among them, what the table was filled with.
  harness::Check verify(int set);

 private:
  Arena& arena_;
  const Method& method_;
  OwnStream beside_;
};

}  // namespace stbench
