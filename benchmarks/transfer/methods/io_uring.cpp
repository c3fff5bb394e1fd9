#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// The loop that the manual of io_uring leads to; without a check of the index.
const RegisterMethod registration{{
    .name = "io_uring",
    .summary = "peer: a plain io_uring loop, a read a row, to only",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "mapped tables, direction to",
    .supports = reads_a_file,
    .skip_reason = [](const reports::Identity&) { return RingLoop::refusal(); },
    .to = [](Arena& arena, int set) { arena.kept<RingLoop>([] { return RingLoop(); }).gather(arena, set); },
}};

}  // namespace
}  // namespace stbench
