#include "benchmarks/transfer/method.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

/// The other ceiling: the same contiguous bytes with streaming stores, or by a kernel that streams host
/// memory. From other host memory to a GPU: streamed into pinned memory, then by the copy engine, and back
/// the same way.
const RegisterMethod registration{{
    .name = "stream",
    .summary = "ceiling: contiguous streaming copy of the same payload",
    .role = harness::Role::ceiling,
    .pattern = Pattern::contiguous,
    .to =
        [](Arena& arena, int set) {
          if (!arena.same_device()) arena.finish();  // the staging tensor is free again
          for (auto& piece : arena.pieces(set)) {
            speedtorch::stream_copy(piece.table, arena.same_device() ? piece.model : piece.staging);
            if (!arena.same_device()) piece.model.copy_(piece.staging, /*non_blocking=*/true);
          }
        },
    .from =
        [](Arena& arena, int set) {
          for (auto& piece : arena.pieces(set)) {
            if (!arena.same_device()) piece.staging.copy_(piece.values, /*non_blocking=*/true);
          }
          if (!arena.same_device()) arena.finish();
          for (auto& piece : arena.pieces(set)) {
            speedtorch::stream_copy(arena.same_device() ? piece.values : piece.staging, piece.table);
          }
        },
}};

}  // namespace
}  // namespace stbench
