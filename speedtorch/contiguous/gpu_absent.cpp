#include <ATen/ops/linalg_vector_norm.h>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/contiguous/flat_plan.h"
#include "speedtorch/error.h"

namespace speedtorch {

/// Clipping is for other optimizers' steps too: LibTorch does it, with a copy in float64.
double square_sum_on_gpu(const at::Tensor& gradient, const kernels::GradientChange& change,
                         SumScratch& /*scratch*/) {
  const auto unscaled = gradient.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true)
                            .mul_(change.inv_scale)
                            .clamp_(-change.max_value, change.max_value);
  const auto norm = at::linalg_vector_norm(unscaled).item<double>();
  return norm * norm;
}

template <class T>
void step_on_gpu(at::Device device, const FlatPlan<T>& /*plan*/, const kernels::GradientChange& /*change*/,
                 bool /*zero*/) {
  throw PlacementError("parameters are on " + device.str() +
                       "; this speedtorch was built without its CUDA kernels");
}

template void step_on_gpu(at::Device, const FlatPlan<float>&, const kernels::GradientChange&, bool);
template void step_on_gpu(at::Device, const FlatPlan<double>&, const kernels::GradientChange&, bool);

}  // namespace speedtorch
