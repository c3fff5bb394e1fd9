#include "benchmarks/transfer/method.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

/// This project's kernels on at most `sms` of the GPU's multiprocessors, to find how few saturate the link.
/// The rest is free for the model, or for the other direction at the same time.
Method within(int sms) {
  const speedtorch::RowsOptions options{.max_sms = sms, .workspace = {}};
  return {.name = "speedtorch_" + std::to_string(sms) + "sm",
          .summary = "this library on so many multiprocessors of the GPU at most",
          .role = harness::Role::ours,
          .asked_only = true,
          .where = "cells on a GPU",
          .supports = rows_move_on_a_gpu,
          .to =
              [options](Operands& operands, int set) {
                speedtorch::gather_rows(operands.table(), operands.index(set), operands.model(), options);
              },
          .from =
              [options](Operands& operands, int set) {
                speedtorch::scatter_rows(operands.table(), operands.index(set), operands.values(set),
                                         options);
              }};
}

const RegisterMethod registration[] = {RegisterMethod{within(1)},  RegisterMethod{within(2)},
                                       RegisterMethod{within(4)},  RegisterMethod{within(8)},
                                       RegisterMethod{within(12)}, RegisterMethod{within(16)},
                                       RegisterMethod{within(24)}, RegisterMethod{within(32)},
                                       RegisterMethod{within(48)}, RegisterMethod{within(64)}};

}  // namespace
}  // namespace stbench
