/// The limits of the process's control group, version 1 or 2, in a container or not.
#pragma once

#include <cstdint>
#include <optional>

#include "speedtorch/system/system_files.h"

namespace speedtorch {

/// The tightest limits of the group and of all groups above it; nullopt if there is no limit.
struct CgroupLimits {
  std::optional<double> cpus;          ///< CPU seconds per second of wall time
  std::optional<std::int64_t> memory;  ///< bytes
  std::optional<std::int64_t>
      memory_available;  ///< bytes free under the tightest limit; page cache counts as free
  std::optional<std::int64_t> swap_available;  ///< bytes that may still be swapped out
};

CgroupLimits read_cgroup_limits(const SystemFiles& files);

}  // namespace speedtorch
