#include "benchmarks/transfer/cuda_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

CubRows& cub_rows(Operands& operands) {
  return operands.kept<CubRows>([&] { return CubRows(operands); });
}

/// One buffer per row: what the CUDA toolkit offers for many small copies. It does not check the index.
const RegisterMethod registration{{
    .name = "cub_batched",
    .summary = "peer: cub::DeviceMemcpy::Batched, a buffer a row",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "cells on a GPU",
    .supports = rows_move_on_a_gpu,
    .to = [](Operands& operands, int set) { cub_rows(operands).move(Way::gather, operands, set); },
    .from = [](Operands& operands, int set) { cub_rows(operands).move(Way::scatter, operands, set); },
}};

}  // namespace
}  // namespace stbench
