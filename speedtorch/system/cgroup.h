/// What the process's control group allows, version 1 or 2, in a container or not.
#pragma once

#include <cstdint>
#include <optional>

#include "speedtorch/system/system_files.h"

namespace speedtorch {

/// Limits of the group and of all groups above it; nullopt where there is none.
struct CgroupLimits {
  std::optional<double> cpus;          ///< CPU time a second of wall time
  std::optional<std::int64_t> memory;  ///< bytes
  std::optional<std::int64_t>
      memory_available;  ///< bytes left below the tightest limit; page cache counts as free
  std::optional<std::int64_t> swap_available;  ///< bytes that may still be swapped out
};

CgroupLimits read_cgroup_limits(const SystemFiles& files);

}  // namespace speedtorch
