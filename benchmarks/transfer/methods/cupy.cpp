#include "benchmarks/transfer/peer_cell.h"

namespace stbench {
namespace {

/// SpeedTorch's own way: CuPy arrays over pinned host memory, indexed by kernels on the GPU. The process
/// registers the shared table with CUDA as this one does. Not yet run on a GPU.
const RegisterMethod registration{[] {
  auto method =
      peer_method("cupy", "peer: Python's CuPy over pinned memory, as SpeedTorch did it (needs a GPU)");
  method.where = "pinned tables with a GPU";
  method.supports = rows_cross_the_link;
  return method;
}()};

}  // namespace
}  // namespace stbench
