#include "benchmarks/peers/peers.h"
#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/peer_cell.h"

namespace stbench {
namespace {

/// Lance's take of rows by their positions, from a dataset that it made of the table in the same folder.
Method lance() {
  auto method = peer_method("lance", "peer: Lance's take, from a dataset made of the table, to only");
  method.where = "mapped tables with --device cpu, direction to";
  method.supports = [](const TransferCase& one) { return reads_a_file(one) && one.callers == 1; };
  method.skip_reason = [](const TransferCase&) { return Peers::of_this_run().refusal("lance"); };
  return method;
}

const RegisterMethod registration{lance()};

}  // namespace
}  // namespace stbench
