#include <cstring>

#include "benchmarks/transfer/file_peers.h"
#include "benchmarks/transfer/method.h"
#include "speedtorch/threads.h"

namespace stbench {
namespace {

/// The plain loop over a mapped file: every cold row is a page fault.
void copy_from_mapping(Operands& operands, int set) {
  constexpr std::int64_t rows_a_part = 64;
  const auto rows = operands.rows(set);
  speedtorch::parallel_for(rows.count, rows_a_part, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      std::memcpy(rows.model_row(i), rows.table + rows.offset_at(i), rows.bytes());
  });
}

const RegisterMethod registration{{
    .name = "mmap",
    .summary = "peer: one memcpy per row from the mapping of the file, to only",
    .role = harness::Role::peer,
    .asked_only = true,
    .where = "mapped tables, direction to",
    .supports = reads_a_file,
    .to = copy_from_mapping,
}};

}  // namespace
}  // namespace stbench
