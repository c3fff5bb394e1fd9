#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// The ceiling: the same bytes as one contiguous piece, by `copy_` (memcpy on the host, the copy engine to a
/// GPU).
const RegisterMethod registration{{
    .name = "copy",
    .summary = "ceiling: contiguous copy_ of the same payload",
    .role = harness::Role::ceiling,
    .pattern = Pattern::contiguous,
    .to =
        [](Operands& operands, int set) {
          for (const auto& piece : operands.pieces(set)) piece.model.copy_(piece.host, /*non_blocking=*/true);
        },
    .from =
        [](Operands& operands, int set) {
          for (const auto& piece : operands.pieces(set))
            piece.host.copy_(piece.values, /*non_blocking=*/true);
        },
}};

}  // namespace
}  // namespace stbench
