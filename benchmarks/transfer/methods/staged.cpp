#include <ATen/ops/index_select.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// LibTorch operations only: select on the host into an allocated pinned tensor, then one asynchronous copy
/// to the GPU; back the same way. The index and the staging tensor are on the host.
const RegisterMethod registration{{
    .name = "staged",
    .summary = "LibTorch: host index_select into pinned memory, then an asynchronous copy",
    .role = harness::Role::libtorch,
    .supports =
        [](const TransferCase& one) {
          return one.on_gpu() && one.placement != speedtorch::Placement::device;
        },
    .skip_reason = index_copy_skip_reason,
    .to =
        [](Operands& operands, int set) {
          operands.finish();  // the staging tensor is free again
          at::index_select_out(operands.staging(), operands.host_table(), 0, operands.host_index(set));
          operands.model().copy_(operands.staging(), /*non_blocking=*/true);
        },
    .from =
        [](Operands& operands, int set) {
          operands.staging().copy_(operands.values(set), /*non_blocking=*/true);
          operands.finish();  // index_copy_ reads the staging tensor on the host
          operands.host_table().index_copy_(0, operands.host_index(set), operands.staging());
        },
}};

}  // namespace
}  // namespace stbench
