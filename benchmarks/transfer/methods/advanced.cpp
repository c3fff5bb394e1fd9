#include <ATen/TensorIndexing.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// What people write: `w = a[i]` (a new tensor each time) and `a[i] = w`.
const RegisterMethod registration{{
    .name = "advanced",
    .summary = "LibTorch: w = a[i], a[i] = w",
    .role = harness::Role::libtorch,
    .to = [](Arena& arena, int set) { arena.deliver(arena.table().index({arena.index(set)})); },
    .from = [](Arena& arena, int set) { arena.table().index_put_({arena.index(set)}, arena.download(set)); },
}};

}  // namespace
}  // namespace stbench
