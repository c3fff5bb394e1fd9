#include "benchmarks/transfer/method.h"
#include "speedtorch/rows/rows.h"

namespace stbench {
namespace {

/// This project's kernels: on the host between host memories, on the GPU between device or pinned memory and
/// the device.
const RegisterMethod registration{{
    .name = "speedtorch",
    .summary = "this library: gather_rows, scatter_rows",
    .role = harness::Role::ours,
    .supports = [](const reports::Identity& id) { return rows_move_on_the_model_device(id); },
    .to = [](Arena& arena,
             int set) { speedtorch::gather_rows(arena.table(), arena.index(set), arena.model()); },
    .from = [](Arena& arena,
               int set) { speedtorch::scatter_rows(arena.table(), arena.index(set), arena.values(set)); },
}};

}  // namespace
}  // namespace stbench
