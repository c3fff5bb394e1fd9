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
    .supports = rows_move_on_the_model_device,
    .to = [](Operands& operands,
             int set) { speedtorch::gather_rows(operands.table(), operands.index(set), operands.model()); },
    .from =
        [](Operands& operands, int set) {
          speedtorch::scatter_rows(operands.table(), operands.index(set), operands.values(set));
        },
}};

}  // namespace
}  // namespace stbench
