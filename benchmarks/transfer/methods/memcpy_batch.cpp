#include "benchmarks/transfer/cuda_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

MemcpyBatchRows& batch_rows(Operands& operands) {
  return operands.kept<MemcpyBatchRows>([&] { return MemcpyBatchRows(operands); });
}

/// One copy of the copy engine per row (published: 4-7 GB/s for rows below 28 KiB on an H100).
const RegisterMethod registration{{
    .name = "memcpy_batch",
    .summary = "peer: cudaMemcpyBatchAsync, one copy per row",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "cells on a GPU",
    .supports = rows_move_on_a_gpu,
    .skip_reason = [](const TransferCase&) { return memcpy_batch_skip_reason(); },
    .to = [](Operands& operands, int set) { batch_rows(operands).move(Way::gather, operands, set); },
    .from = [](Operands& operands, int set) { batch_rows(operands).move(Way::scatter, operands, set); },
}};

}  // namespace
}  // namespace stbench
