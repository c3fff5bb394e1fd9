#include "speedtorch/optim/device_step.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "speedtorch/kernels/cuda/sparse_step.h"
#include "speedtorch/rows/cuda_index_errors.h"

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

template <class T>
void step_rows(at::Tensor& kept, const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables,
               const at::Tensor& index, const at::Tensor& grad, std::int64_t step) {
  const c10::cuda::CUDAGuard guard(grad.device());
  const auto row_bytes = tables.columns * static_cast<std::int64_t>(sizeof(T));
  const auto workspace = workspace_for(kept, index, row_bytes);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  kernels::CudaLaunch launch;
  launch.errors = cuda_index_errors(grad.device());
  const auto count = index.numel();
  if (index.scalar_type() == at::kLong)
    kernels::sparse_step_cuda(update, tables, index.const_data_ptr<std::int64_t>(), count,
                              grad.const_data_ptr<T>(), step, stream, workspace, launch);
  else
    kernels::sparse_step_cuda(update, tables, index.const_data_ptr<std::int32_t>(), count,
                              grad.const_data_ptr<T>(), step, stream, workspace, launch);
}

template <class T>
void step_all(const kernels::AnyUpdate<T>& update, const kernels::StepTables<T>& tables,
              const at::Tensor& grad, std::int64_t step) {
  const c10::cuda::CUDAGuard guard(grad.device());
  kernels::update_all_cuda(update, tables, grad.const_data_ptr<T>(), step, c10::cuda::getCurrentCUDAStream());
}

}  // namespace

void DeviceStep::rows(const kernels::AnyUpdate<float>& update, const kernels::StepTables<float>& tables,
                      const at::Tensor& index, const at::Tensor& grad, std::int64_t step) {
  step_rows(workspace_, update, tables, index, grad, step);
}

void DeviceStep::rows(const kernels::AnyUpdate<double>& update, const kernels::StepTables<double>& tables,
                      const at::Tensor& index, const at::Tensor& grad, std::int64_t step) {
  step_rows(workspace_, update, tables, index, grad, step);
}

void DeviceStep::all(const kernels::AnyUpdate<float>& update, const kernels::StepTables<float>& tables,
                     const at::Tensor& grad, std::int64_t step) {
  step_all(update, tables, grad, step);
}

void DeviceStep::all(const kernels::AnyUpdate<double>& update, const kernels::StepTables<double>& tables,
                     const at::Tensor& grad, std::int64_t step) {
  step_all(update, tables, grad, step);
}

}  // namespace speedtorch
