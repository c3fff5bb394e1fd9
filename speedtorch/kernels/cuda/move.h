/// A planned movement and its launch, for the sources that launch one. Needs the CUDA runtime's header.
#pragma once

#include "speedtorch/kernels/cuda/device.h"
#include "speedtorch/kernels/cuda/lane.h"

namespace speedtorch::kernels {

/// Launches the kernel of the plan's widths and access, for int32 and int64 indices; defined in rows.cu.
/// @throws CudaError if the launch fails
template <class Index>
void launch_move(const LaneMove<Index>& move, const CudaLaunch& launch, cudaStream_t stream);

/// @throws CudaError if the runtime cannot tell the kind of memory
template <class Index>
LaneMove<Index> plan_move(ConstRows from, Rows to, const Index* index, std::int64_t count,
                          Direction direction, const CudaLaunch& launch) {
  const LanePlan plan = plan_lanes(from, to, link_of(launch, from.data, to.data));
  return {from, to, index, count, direction, plan, launch.errors, launch.check_indices};
}

}  // namespace speedtorch::kernels
