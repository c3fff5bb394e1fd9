#include "benchmarks/transfer/method.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

/// The fastest copy for the table's pages. A copy without software prefetch takes 1.3 to 1.5 times as long on an
/// Intel Xeon, so it would be no ceiling. The report's environment names the way.
speedtorch::CopyWay fastest_way(const Operands& operands) {
  const auto& plan = speedtorch::kernels::plan_in_use();
  const bool huge = operands.memory()->placement() == speedtorch::Placement::hugepage;
  return huge ? plan.copy_huge_pages : plan.copy_small_pages;
}

/// The other ceiling: the same contiguous bytes with streaming stores, or by a kernel that streams host
/// memory. From other host memory to a GPU, it streams into pinned memory and the copy engine does the rest;
/// back the same way.
const RegisterMethod registration{{
    .name = "stream",
    .summary = "ceiling: contiguous streaming copy of the same payload",
    .role = harness::Role::ceiling,
    .pattern = Pattern::contiguous,
    .to =
        [](Operands& operands, int set) {
          if (!operands.same_device()) operands.finish();  // the staging tensor is free again
          for (auto& piece : operands.pieces(set)) {
            speedtorch::stream_copy(piece.table, operands.same_device() ? piece.model : piece.staging,
                                    fastest_way(operands));
            if (!operands.same_device()) piece.model.copy_(piece.staging, /*non_blocking=*/true);
          }
        },
    .from =
        [](Operands& operands, int set) {
          for (auto& piece : operands.pieces(set)) {
            if (!operands.same_device()) piece.staging.copy_(piece.values, /*non_blocking=*/true);
          }
          if (!operands.same_device()) operands.finish();
          for (auto& piece : operands.pieces(set)) {
            speedtorch::stream_copy(operands.same_device() ? piece.values : piece.staging, piece.table,
                                    fastest_way(operands));
          }
        },
}};

}  // namespace
}  // namespace stbench
