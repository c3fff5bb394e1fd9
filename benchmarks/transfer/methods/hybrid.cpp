#include "speedtorch/rows/hybrid.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

std::string skip_reason(const reports::Identity& id) {
  if (id.direction == "to") return "";
  return "hybrid only goes to the GPU: kernels write host memory at 0.96 of the copy engine's rate, so "
         "nothing is "
         "left to share; use --direction to, or --method speedtorch";
}

/// Rows from pinned memory on both ways at once. The split is measured at the arena's first call.
const RegisterMethod registration{{
    .name = "hybrid",
    .summary = "this library: kernels and the copy engine share the rows (pinned memory to a GPU)",
    .role = harness::Role::ours,
    .supports = rows_cross_the_link,
    .skip_reason = skip_reason,
    .to =
        [](Arena& arena, int set) {
          using speedtorch::HybridGather;
          auto& hybrid = arena.kept<HybridGather>(
              [&] { return HybridGather(arena.table(), arena.host_table(), arena.model().size(0)); });
          hybrid.gather(arena.index(set), arena.host_index(set), arena.model());
        },
}};

}  // namespace
}  // namespace stbench
