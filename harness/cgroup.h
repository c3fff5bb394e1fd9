/// What the process's control group allows: the library's reader (speedtorch/cgroup.h) by this room's names.
#pragma once

#include "speedtorch/cgroup.h"

namespace stbench::harness {

using speedtorch::CgroupLimits;
using speedtorch::read_cgroup_limits;

}  // namespace stbench::harness
