#include "benchmarks/method.h"
#include "speedtorch/rows.h"

namespace stbench {
namespace {

/// The other ceiling: the same contiguous bytes with streaming stores, or by a kernel that streams host
/// memory.
const RegisterMethod registration{{
    .name = "stream",
    .summary = "ceiling: contiguous streaming copy of the same payload",
    .role = harness::Role::ceiling,
    .pattern = Pattern::contiguous,
    .applies = [](const reports::Identity& id) { return rows_move_on_the_model_device(id); },
    .to =
        [](Arena& arena, int set) {
          for (auto& piece : arena.pieces(set)) speedtorch::stream_copy(piece.table, piece.model);
        },
    .from =
        [](Arena& arena, int set) {
          for (auto& piece : arena.pieces(set)) speedtorch::stream_copy(piece.values, piece.table);
        },
}};

}  // namespace
}  // namespace stbench
