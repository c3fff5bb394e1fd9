/// Finds out whether rows that are written share bytes with rows that are read.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/row_view.h"

namespace speedtorch {

/// Compares row by row, for interleaved rows such as the columns of one table.
[[gnu::cold]] bool rows_share_bytes(const kernels::ConstRows& from, const kernels::ConstRows& to);

/// True if a byte belongs to a row of both. Takes two comparisons if the blocks do not overlap, as is usual,
/// and otherwise some ns per row of `to`.
inline bool overlap(const kernels::ConstRows& from, const kernels::ConstRows& to) {
  const auto extent = [](const kernels::ConstRows& rows) {
    return rows.rows > 0 ? static_cast<std::uint64_t>((rows.rows - 1) * rows.stride_bytes + rows.row_bytes)
                         : 0;
  };
  const auto begin = [](const kernels::ConstRows& rows) {
    return reinterpret_cast<std::uintptr_t>(rows.data);
  };
  // Unsigned, so that a block before the other counts as far behind it.
  if (begin(to) - begin(from) >= extent(from) && begin(from) - begin(to) >= extent(to)) return false;
  return rows_share_bytes(from, to);
}

}  // namespace speedtorch
