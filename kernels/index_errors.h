/// What a CUDA kernel reports of indices that name no row.
#pragma once

namespace speedtorch::kernels {

/// Lies in memory that the device can write; set to its defaults before the call, valid once the stream is
/// done.
struct IndexErrors {
  unsigned long long count = 0;               ///< how many indices named no row
  unsigned long long first_position = ~0ULL;  ///< the smallest position of such an index
};

}  // namespace speedtorch::kernels
