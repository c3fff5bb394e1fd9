/// What the kernel needs to step one bucket. Internal.
#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "speedtorch/kernels/steps/flat_step.h"

namespace speedtorch {

/// T is the dtype in which the update is computed.
template <class T>
struct FlatPlan {
  kernels::FlatTables<T> tables{};
  std::vector<kernels::AnyUpdate<T>> updates = {};  ///< one per group
  std::vector<kernels::FlatRun<T>> runs = {};       ///< of this step; reserved for one run per parameter
};

/// Steps the runs of a bucket on a GPU, on its current stream.
/// @throws CudaError; PlacementError in a build without CUDA
template <class T>
void step_on_gpu(at::Device device, const FlatPlan<T>& plan, const kernels::GradientChange& change,
                 bool zero);

}  // namespace speedtorch
