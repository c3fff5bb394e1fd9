#include "benchmarks/transfer/peer_cell.h"

namespace stbench {
namespace {

/// NumPy as people use it for a table on the host; it moves rows in one thread.
const RegisterMethod registration{
    peer_method("numpy", "peer: Python's NumPy, take(out=, mode='clip'), table[index] = values")};

}  // namespace
}  // namespace stbench
