#include <ATen/ops/index_select.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// LibTorch operations only: select on the host into a ready pinned tensor, then one asynchronous copy to the
/// GPU; back the same way. The index and the staging tensor live on the host.
const RegisterMethod registration{{
    .name = "staged",
    .summary = "LibTorch: host index_select into pinned memory, then an asynchronous copy",
    .role = harness::Role::libtorch,
    .supports = [](const reports::Identity& id) { return id.device != "cpu" && id.placement != "device"; },
    .skip_reason = index_copy_skip_reason,
    .to =
        [](Arena& arena, int set) {
          arena.finish();  // the staging tensor is free again
          at::index_select_out(arena.staging(), arena.host_table(), 0, arena.host_index(set));
          arena.model().copy_(arena.staging(), /*non_blocking=*/true);
        },
    .from =
        [](Arena& arena, int set) {
          arena.staging().copy_(arena.values(set), /*non_blocking=*/true);
          arena.finish();  // index_copy_ reads the staging tensor on the host
          arena.host_table().index_copy_(0, arena.host_index(set), arena.staging());
        },
}};

}  // namespace
}  // namespace stbench
