#include <ATen/ops/index_select.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// LibTorch's best known way: `index_select` into a ready tensor, `index_copy_` back. On `pinned` it runs on
/// the zero-copy alias. From another host memory to a GPU it selects on the host and lets LibTorch copy.
const RegisterMethod registration{{
    .name = "index_select",
    .summary = "LibTorch: index_select(out=), index_copy_",
    .role = harness::Role::libtorch,
    .skip_reason = index_copy_skip_reason,
    .to =
        [](Arena& arena, int set) {
          at::index_select_out(arena.gathered(), arena.table(), 0, arena.index(set));
          arena.upload();
        },
    .from = [](Arena& arena,
               int set) { arena.table().index_copy_(0, arena.index(set), arena.download(set)); },
}};

}  // namespace
}  // namespace stbench
