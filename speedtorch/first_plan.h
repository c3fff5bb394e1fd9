/// The plan by which the first rows of a process move. Whoever moves rows links threads.cpp, which sets this
/// as the kernels' plan source.
#pragma once

#include "speedtorch/kernels/rows/plan.h"

namespace speedtorch {

/// The plan as speedtorch/rows/host_plan.h describes it, whose source defines this function. @throws
/// RowPlanError if SPEEDTORCH_PLAN names a file without a plan
kernels::Plan first_host_plan();

}  // namespace speedtorch
