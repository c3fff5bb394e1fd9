/// What the process's control group allows: the library's reader (speedtorch/system/cgroup.h) by this room's
/// names.
#pragma once

#include "speedtorch/system/cgroup.h"

namespace stbench::harness {

using speedtorch::CgroupLimits;
using speedtorch::read_cgroup_limits;

}  // namespace stbench::harness
