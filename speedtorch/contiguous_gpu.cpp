#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/cuda_flat_step.h"
#include "speedtorch/contiguous_state.h"

namespace speedtorch {

template <class T>
void step_on_gpu(at::Device device, const FlatPlan<T>& plan, const kernels::GradientChange& change,
                 bool zero) {
  const c10::cuda::CUDAGuard guard(device);
  kernels::flat_step_cuda(plan.tables, plan.runs.data(), static_cast<std::int64_t>(plan.runs.size()), change,
                          zero, c10::cuda::getCurrentCUDAStream());
}

template void step_on_gpu(at::Device, const FlatPlan<float>&, const kernels::GradientChange&, bool);
template void step_on_gpu(at::Device, const FlatPlan<double>&, const kernels::GradientChange&, bool);

}  // namespace speedtorch
