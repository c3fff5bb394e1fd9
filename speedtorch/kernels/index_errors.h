/// What a CUDA kernel reports of indices that name no row.
#pragma once

#include <cstdint>

namespace speedtorch::kernels {

/// Lies in memory that the device can write; set to its defaults before the first call, valid once the stream
/// is done. Several calls may share one: it then tells of all of them. Who reads it again and again leaves
/// `count` alone, to which other streams may be adding, and only sets `first_position` back.
struct IndexErrors {
  unsigned long long count = 0;               ///< how many indices named no row
  unsigned long long first_position = ~0ULL;  ///< the smallest position of such an index
  /// One of them, the first since `first_position` had its default: its position, its value, and the rows
  /// there were.
  std::int64_t seen_position = -1;
  std::int64_t seen_index = 0;
  std::int64_t seen_rows = 0;
};

}  // namespace speedtorch::kernels
