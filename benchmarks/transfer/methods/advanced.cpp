#include <ATen/TensorIndexing.h>

#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// The usual code: `w = a[i]` (a new tensor each time) and `a[i] = w`.
const RegisterMethod registration{{
    .name = "advanced",
    .summary = "LibTorch: w = a[i], a[i] = w",
    .role = harness::Role::libtorch,
    .to = [](Operands& in, int set) { in.deliver(in.table().index({in.index(set)})); },
    .from = [](Operands& in, int set) { in.table().index_put_({in.index(set)}, in.download(set)); },
}};

}  // namespace
}  // namespace stbench
