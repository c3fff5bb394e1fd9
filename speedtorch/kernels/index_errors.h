/// The invalid indices that a CUDA kernel reports.
#pragma once

#include <cstdint>

namespace speedtorch::kernels {

/// Lies in memory that the device can write. Set it to its defaults before the first call; it is valid once
/// the stream is done. Several calls may share one, which then reports on all of them. If you read it
/// repeatedly, reset only `first_position`, because other streams may be adding to `count`.
struct IndexErrors {
  unsigned long long count = 0;               ///< number of invalid indices
  unsigned long long first_position = ~0ULL;  ///< the smallest position of one
  /// One of them, the first since `first_position` had its default: its position, its value, and the number
  /// of rows.
  std::int64_t seen_position = -1;
  std::int64_t seen_index = 0;
  std::int64_t seen_rows = 0;
};

}  // namespace speedtorch::kernels
