#include <ATen/ops/index_select.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// LibTorch's best known way: `index_select` into an allocated tensor, `index_copy_` back. On `pinned` it
/// runs on the zero-copy alias. From other host memory to a GPU it selects on the host and lets LibTorch
/// copy.
const RegisterMethod registration{{
    .name = "index_select",
    .summary = "LibTorch: index_select(out=), index_copy_",
    .role = harness::Role::libtorch,
    .skip_reason = index_copy_skip_reason,
    .to =
        [](Operands& operands, int set) {
          at::index_select_out(operands.gathered(), operands.table(), 0, operands.index(set));
          operands.upload();
        },
    .from = [](Operands& operands,
               int set) { operands.table().index_copy_(0, operands.index(set), operands.download(set)); },
}};

}  // namespace
}  // namespace stbench
