/// Steps on a GPU in a build without CUDA: it says what is missing.
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/optim/device_step.h"

namespace speedtorch {
namespace {

[[noreturn]] void refuse() { throw PlacementError(cuda_refusal("an optimizer's step on a GPU")); }

}  // namespace

void DeviceStep::rows(const kernels::AnyUpdate<float>&, const kernels::StepTables<float>&, const at::Tensor&,
                      const at::Tensor&, std::int64_t) {
  refuse();
}

void DeviceStep::rows(const kernels::AnyUpdate<double>&, const kernels::StepTables<double>&,
                      const at::Tensor&, const at::Tensor&, std::int64_t) {
  refuse();
}

void DeviceStep::all(const kernels::AnyUpdate<float>&, const kernels::StepTables<float>&, const at::Tensor&,
                     std::int64_t) {
  refuse();
}

void DeviceStep::all(const kernels::AnyUpdate<double>&, const kernels::StepTables<double>&, const at::Tensor&,
                     std::int64_t) {
  refuse();
}

}  // namespace speedtorch
