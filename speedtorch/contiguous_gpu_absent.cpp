#include "speedtorch/contiguous_state.h"
#include "speedtorch/error.h"

namespace speedtorch {

template <class T>
void step_on_gpu(at::Device device, const FlatPlan<T>& /*plan*/, const kernels::GradientChange& /*change*/,
                 bool /*zero*/) {
  throw PlacementError("parameters are on " + device.str() +
                       "; this speedtorch was built without its CUDA kernels");
}

template void step_on_gpu(at::Device, const FlatPlan<float>&, const kernels::GradientChange&, bool);
template void step_on_gpu(at::Device, const FlatPlan<double>&, const kernels::GradientChange&, bool);

}  // namespace speedtorch
