#include "speedtorch/files/row_cache.h"

#include <ATen/ops/empty.h>

#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"

namespace stbench {
namespace {

/// A cache, and what it had counted when its memory was full.
struct FullCache {
  speedtorch::RowCache rows;
  speedtorch::RowCacheStatistics before = {};
};

FullCache& cache_of(Operands& operands) {
  return operands.kept<FullCache>([&] {
    const auto count = operands.table().size(0);
    const auto row_bytes = static_cast<std::int64_t>(operands.table().nbytes()) / count;
    const speedtorch::FileTable file{operands.table_fd(), operands.table_offset(), count, row_bytes};
    return FullCache{{file, {.bytes = operands.cache_bytes()}}};
  });
}

double warm(Operands& operands, const at::Tensor& index) {
  auto& cache = cache_of(operands);
  const auto before = cache.rows.statistics();
  auto out = at::empty({index.size(0), operands.table().size(1)}, operands.table().options());
  cache.rows.gather(index, out);
  cache.before = cache.rows.statistics();
  return cache.before.hit_rate_since(before);
}

/// Hot rows in memory, and the others read by FileRows. Each sample has rows that were not looked up before.
const RegisterMethod registration{{
    .name = "row_cache",
    .summary =
        "this library: RowCache, hot rows of a file in --cache-bytes of memory (mapped tables, to only)",
    .role = harness::Role::ours,
    .asked_only = true,
    .where = "mapped tables, direction to",
    .supports = reads_a_file,
    .to = [](Operands& operands,
             int set) { cache_of(operands).rows.gather(operands.index(set), operands.model()); },
    .warm = warm,
    .columns =
        [](Operands& operands) {
          const auto& cache = cache_of(operands);
          return reports::Columns{{"hit_rate", cache.rows.statistics().hit_rate_since(cache.before)}};
        },
}};

}  // namespace
}  // namespace stbench
