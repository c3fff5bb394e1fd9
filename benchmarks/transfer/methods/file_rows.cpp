#include "speedtorch/files/file_rows.h"
#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// Reads the file instead of touching `speedtorch`'s mapping. Its own method, so that the same rounds show
/// what that gains if rows are cold and costs if they are warm.
const RegisterMethod registration{{
    .name = "file_rows",
    .summary = "this library: FileRows, batched reads of a file (mapped tables, to only)",
    .role = harness::Role::ours,
    .supports = reads_a_file,
    .to =
        [](Operands& operands, int set) {
          auto& rows = operands.kept<speedtorch::FileRows>([&] {
            const auto count = operands.table().size(0);
            const auto row_bytes = static_cast<std::int64_t>(operands.table().nbytes()) / count;
            return speedtorch::FileRows({operands.table_fd(), operands.table_offset(), count, row_bytes});
          });
          rows.gather(operands.index(set), operands.model());
        },
}};

}  // namespace
}  // namespace stbench
