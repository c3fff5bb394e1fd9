#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// What one gets without doing anything: cold rows are page faults.
const RegisterMethod registration{{
    .name = "mmap",
    .summary = "peer: a memcpy a row from the mapping of the file, to only",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "mapped tables, direction to",
    .supports = reads_a_file,
    .to = copy_from_mapping,
}};

}  // namespace
}  // namespace stbench
