#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// One system call per row.
const RegisterMethod registration{{
    .name = "pread",
    .summary = "peer: a pread a row, on all threads, to only",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "mapped tables, direction to",
    .supports = reads_a_file,
    .to = pread_rows,
}};

}  // namespace
}  // namespace stbench
