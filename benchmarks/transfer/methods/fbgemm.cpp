#include "benchmarks/transfer/peer_cell.h"

namespace stbench {
namespace {

/// FBGEMM's table-batched embedding on a CPU, bags of one row. It allocates its output, and adds each row to
/// zero, so results are equal as numbers, not in every bit.
Method fbgemm() {
  auto method = peer_method("fbgemm", "peer: FBGEMM's table-batched embedding of bags of one row, to only");
  method.equality = Equality::numbers;
  method.where += ", direction to, float32 and float16";
  method.supports = [any = method.supports](const TransferCase& one) {
    const auto dtype = one.shape().dtype;
    return any(one) && one.direction == Direction::to && (dtype == at::kFloat || dtype == at::kHalf);
  };
  return method;
}

const RegisterMethod registration{fbgemm()};

}  // namespace
}  // namespace stbench
