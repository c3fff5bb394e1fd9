#include "benchmarks/transfer/peer_cell.h"

namespace stbench {
namespace {

/// LibTorch's best known way, called from Python: shows what the interpreter and its wheel cost or gain.
const RegisterMethod registration{[] {
  auto method = peer_method("torch", "peer: Python's torch, index_select(out=), index_copy_");
  method.skip_reason = [here = method.skip_reason](const TransferCase& one) {
    const auto reason = index_copy_skip_reason(one);
    return reason.empty() ? here(one) : reason;
  };
  return method;
}()};

}  // namespace
}  // namespace stbench
