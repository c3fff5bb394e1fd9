#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// The loop of the io_uring manual. It does not check the index.
const RegisterMethod registration{{
    .name = "io_uring",
    .summary = "peer: a plain io_uring loop, a read a row, to only",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "mapped tables, direction to",
    .supports = reads_a_file,
    .skip_reason = [](const TransferCase&) { return RingLoop::refusal(); },
    .to = [](Operands& operands,
             int set) { operands.kept<RingLoop>([] { return RingLoop(); }).gather(operands, set); },
}};

}  // namespace
}  // namespace stbench
