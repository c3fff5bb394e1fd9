#include "speedtorch/files/file_rows.h"
#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// Another way into a file than `speedtorch`'s mapping, so a method of its own: what it gains, and what it
/// costs where nothing is cold, stands beside that one in the same rounds.
const RegisterMethod registration{{
    .name = "file_rows",
    .summary = "this library: FileRows, batched reads of a file (mapped tables, to only)",
    .role = harness::Role::ours,
    .supports = reads_a_file,
    .to =
        [](Arena& arena, int set) {
          auto& rows = arena.kept<speedtorch::FileRows>([&] {
            const auto count = arena.table().size(0);
            const auto row_bytes = static_cast<std::int64_t>(arena.table().nbytes()) / count;
            return speedtorch::FileRows({arena.table_fd(), 0, count, row_bytes});
          });
          rows.gather(arena.index(set), arena.model());
        },
}};

}  // namespace
}  // namespace stbench
