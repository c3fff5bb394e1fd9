/// The size of the cache that large movements bypass.
#pragma once

#include <cstdint>

namespace speedtorch::kernels {

/// Bytes of the last-level cache of one core, read once; 32 MiB if the system does not say.
std::int64_t last_level_cache_bytes();

}  // namespace speedtorch::kernels
