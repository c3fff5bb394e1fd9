#include "benchmarks/transfer/peer_cell.h"

namespace stbench {
namespace {

/// LibTorch's best known way as Python calls it: what its interpreter and its own wheel cost or gain.
const RegisterMethod registration{[] {
  auto method = peer_method("torch", "peer: Python's torch, index_select(out=), index_copy_");
  method.refuses = [here = method.refuses](const reports::Identity& id) {
    const auto reason = index_copy_refuses(id);
    return reason.empty() ? here(id) : reason;
  };
  return method;
}()};

}  // namespace
}  // namespace stbench
