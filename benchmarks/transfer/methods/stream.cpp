#include "benchmarks/transfer/method.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

/// Of the table's pages: a copy that the processor's own prefetcher feeds alone is slower than the memory, by
/// 1.2 to 1.4 times on an Intel Xeon, and so would be no ceiling. The report's environment names the ways.
speedtorch::CopyWay fastest_way(const Arena& arena) {
  const auto& plan = speedtorch::kernels::plan_in_use();
  const bool huge = arena.memory()->placement() == speedtorch::Placement::hugepage;
  return huge ? plan.copy_huge_pages : plan.copy_small_pages;
}

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
            speedtorch::stream_copy(piece.table, arena.same_device() ? piece.model : piece.staging,
                                    fastest_way(arena));
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
            speedtorch::stream_copy(arena.same_device() ? piece.values : piece.staging, piece.table,
                                    fastest_way(arena));
          }
        },
}};

}  // namespace
}  // namespace stbench
