#include "benchmarks/transfer/cuda_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

MemcpyBatchRows& batch_rows(Arena& arena) {
  return arena.kept<MemcpyBatchRows>([&] { return MemcpyBatchRows(arena); });
}

/// A copy of the copy engine for each row: 4-7 GB/s below 28 KiB a row on an H100, so a row for the table.
const RegisterMethod registration{{
    .name = "memcpy_batch",
    .summary = "peer: cudaMemcpyBatchAsync, a copy a row",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "cells on a GPU",
    .supports = rows_move_on_a_gpu,
    .skip_reason = [](const reports::Identity&) { return memcpy_batch_skip_reason(); },
    .to = [](Arena& arena, int set) { batch_rows(arena).gather(arena, set); },
    .from = [](Arena& arena, int set) { batch_rows(arena).scatter(arena, set); },
}};

}  // namespace
}  // namespace stbench
