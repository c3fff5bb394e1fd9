#include "benchmarks/transfer/cuda_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

CubRows& cub_rows(Arena& arena) {
  return arena.kept<CubRows>([&] { return CubRows(arena); });
}

/// A buffer a row, without a check of the index: what the CUDA toolkit offers for many small copies.
const RegisterMethod registration{{
    .name = "cub_batched",
    .summary = "peer: cub::DeviceMemcpy::Batched, a buffer a row",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "cells on a GPU",
    .supports = rows_move_on_a_gpu,
    .to = [](Arena& arena, int set) { cub_rows(arena).gather(arena, set); },
    .from = [](Arena& arena, int set) { cub_rows(arena).scatter(arena, set); },
}};

}  // namespace
}  // namespace stbench
