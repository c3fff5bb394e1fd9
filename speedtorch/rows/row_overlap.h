/// Whether rows that are written share bytes with rows that are read.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/row_view.h"

namespace speedtorch {

/// Row by row, for rows that lie among each other, as the columns of one table do.
[[gnu::cold]] bool rows_share_bytes(const kernels::ConstRows& from, const kernels::ConstRows& to);

/// True where a byte belongs to a row of both. Two comparisons where the blocks are apart, as they nearly
/// always are; else some ns for each row of `to`.
inline bool overlap(const kernels::ConstRows& from, const kernels::ConstRows& to) {
  const auto extent = [](const kernels::ConstRows& rows) {
    return rows.rows > 0 ? static_cast<std::uint64_t>((rows.rows - 1) * rows.stride_bytes + rows.row_bytes)
                         : 0;
  };
  const auto begin = [](const kernels::ConstRows& rows) {
    return reinterpret_cast<std::uintptr_t>(rows.data);
  };
  // Unsigned: what comes before the other is very far behind it.
  if (begin(to) - begin(from) >= extent(from) && begin(from) - begin(to) >= extent(to)) return false;
  return rows_share_bytes(from, to);
}

}  // namespace speedtorch
