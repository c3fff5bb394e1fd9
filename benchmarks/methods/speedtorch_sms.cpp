#include "benchmarks/method.h"
#include "speedtorch/rows.h"

namespace stbench {
namespace {

/// This project's kernels on so many of the GPU's multiprocessors: how few are enough for the link. Those
/// left over are the model's, or another direction's at the same time.
Method within(int sms) {
  const speedtorch::RowsOptions options{.max_sms = sms, .workspace = {}};
  return {.name = "speedtorch_" + std::to_string(sms) + "sm",
          .summary = "this library on so many multiprocessors of the GPU at most",
          .role = harness::Role::ours,
          .asked_only = true,
          .where = "cells on a GPU",
          .applies = rows_move_on_a_gpu,
          .to =
              [options](Arena& arena, int set) {
                speedtorch::gather_rows(arena.table(), arena.index(set), arena.model(), options);
              },
          .from =
              [options](Arena& arena, int set) {
                speedtorch::scatter_rows(arena.table(), arena.index(set), arena.values(set), options);
              }};
}

const RegisterMethod one{within(1)}, two{within(2)}, four{within(4)}, eight{within(8)}, twelve{within(12)},
    sixteen{within(16)}, two_dozen{within(24)}, thirty_two{within(32)}, forty_eight{within(48)},
    sixty_four{within(64)};

}  // namespace
}  // namespace stbench
