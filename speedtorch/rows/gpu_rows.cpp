#include "speedtorch/rows/gpu_rows.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "speedtorch/error.h"
#include "speedtorch/kernels/cuda/ordered_rows.h"
#include "speedtorch/kernels/cuda/rows.h"
#include "speedtorch/rows/cuda_index_errors.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

kernels::CudaLaunch launch_on(at::Device device, const RowsOptions& options) {
  kernels::CudaLaunch launch;
  launch.max_sms = options.max_sms;
  launch.check_indices = options.check_indices;
  if (options.check_indices) launch.errors = cuda_index_errors(device);
  return launch;
}

kernels::Workspace workspace_of(const RowsOptions& options, at::Device device) {
  if (!options.workspace.defined()) return {};
  if (options.workspace.device() != device) {
    throw PlacementError("the workspace is on " + options.workspace.device().str() + ", the table on " +
                         device.str() + "; both must be on one device");
  }
  if (!options.workspace.is_contiguous())
    throw ShapeError("the workspace (" + shape_of(options.workspace) + ") is not contiguous");
  check_in_memory(options.workspace, "the workspace");
  return {static_cast<std::byte*>(options.workspace.data_ptr()),
          static_cast<std::int64_t>(options.workspace.nbytes())};
}

}  // namespace

void gather_on_gpu(const at::Tensor& table, kernels::ConstRows from, const at::Tensor& index,
                   kernels::Rows to, const RowsOptions& options) {
  const c10::cuda::CUDAGuard guard(table.device());
  const auto launch = launch_on(table.device(), options);
  const auto workspace = workspace_of(options, table.device());
  const auto count = index.numel();
  with_index(index, [&](const auto* indices) {
    kernels::gather_rows_ordered_cuda(from, indices, count, to, c10::cuda::getCurrentCUDAStream(),
                                      options.order, workspace, launch);
  });
}

void scatter_on_gpu(kernels::ConstRows from, const at::Tensor& index, kernels::Rows to,
                    const at::Tensor& table, const RowsOptions& options) {
  const c10::cuda::CUDAGuard guard(table.device());
  const auto launch = launch_on(table.device(), options);
  with_index(index, [&](const auto* indices) {
    kernels::scatter_rows_cuda(from, indices, index.numel(), to, c10::cuda::getCurrentCUDAStream(), launch);
  });
}

std::int64_t workspace_bytes_on_gpu(const at::Tensor& table, const at::Tensor& index, IndexOrder order) {
  const c10::cuda::CUDAGuard guard(table.device());
  return kernels::ordered_workspace_bytes(order, index.numel(), static_cast<int>(index.element_size()),
                                          rows_of(resolved(table), "the table").row_bytes);
}

void stream_copy_on_gpu(std::byte* to, const std::byte* from, std::int64_t bytes, at::Device gpu) {
  const c10::cuda::CUDAGuard guard(gpu);
  kernels::stream_copy_cuda(to, from, bytes, c10::cuda::getCurrentCUDAStream());
}

}  // namespace speedtorch
