#include "speedtorch/optim/device_step.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "speedtorch/kernels/cuda/sparse_step.h"
#include "speedtorch/rows/cuda_index_errors.h"
#include "speedtorch/rows/row_operands.h"

namespace speedtorch {
namespace {

/// Returns the workspace, which serves one stream at a time: LibTorch keeps its memory for the stream that
/// allocated it.
kernels::Workspace workspace_for(at::Tensor& kept, const at::Tensor& index, std::int64_t row_bytes) {
  const auto needed = kernels::sparse_step_workspace_bytes(index.numel(), row_bytes);
  if (!kept.defined() || kept.numel() < needed || kept.device() != index.device())
    kept = at::empty({needed}, index.options().dtype(at::kByte));
  return {static_cast<std::byte*>(kept.data_ptr()), static_cast<std::int64_t>(kept.nbytes())};
}

}  // namespace

template <class T>
void DeviceStep<T>::rows(const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables,
                         const at::Tensor& index, const at::Tensor& grad, std::int64_t step) {
  const c10::cuda::CUDAGuard guard(grad.device());
  const auto row_bytes = tables.columns * static_cast<std::int64_t>(sizeof(T));
  const auto workspace = workspace_for(workspace_, index, row_bytes);
  kernels::CudaLaunch launch;
  launch.errors = cuda_index_errors(grad.device());
  with_index(index, [&](const auto* rows) {
    kernels::sparse_step_cuda(update, tables, rows, index.numel(), grad.const_data_ptr<T>(), step,
                              c10::cuda::getCurrentCUDAStream(), workspace, launch);
  });
}

template <class T>
void DeviceStep<T>::all(const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables,
                        const at::Tensor& grad, std::int64_t step) {
  const c10::cuda::CUDAGuard guard(grad.device());
  kernels::update_all_cuda(update, tables, grad.const_data_ptr<T>(), step, c10::cuda::getCurrentCUDAStream());
}

template class DeviceStep<float>;
template class DeviceStep<double>;

}  // namespace speedtorch
