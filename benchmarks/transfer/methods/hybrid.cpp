#include "speedtorch/rows/hybrid.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

std::string hybrid_skip_reason(const TransferCase& one) {
  if (one.direction == Direction::to) return "";
  return "hybrid only gathers to the GPU, because kernels write host memory at 0.96 of the copy engine's "
         "rate; "
         "use --direction to, or --method speedtorch";
}

/// Kernels and the copy engine move rows from pinned memory at the same time. The first call measures the
/// split.
const RegisterMethod registration{{
    .name = "hybrid",
    .summary = "this library: kernels and the copy engine share the rows (pinned memory to a GPU)",
    .role = harness::Role::ours,
    .supports = rows_cross_the_link,
    .skip_reason = hybrid_skip_reason,
    .to =
        [](Operands& operands, int set) {
          using speedtorch::HybridGather;
          auto& hybrid = operands.kept<HybridGather>([&] {
            return HybridGather(operands.table(), operands.host_table(), operands.model().size(0));
          });
          hybrid.gather(operands.index(set), operands.host_index(set), operands.model());
        },
}};

}  // namespace
}  // namespace stbench
