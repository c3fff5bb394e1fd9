#include "speedtorch/rows/rows.h"

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/node_rows.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/system/nodes.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "speedtorch/kernels/cuda/ordered_rows.h"
#include "speedtorch/kernels/cuda/rows.h"
#include "speedtorch/rows/cuda_index_errors.h"
#endif

namespace speedtorch {
namespace {

/// Moves by node where the machine has several and it pays (`move(plan)`); false where not.
template <class Move>
bool moved_by_node(kernels::ConstRows table, std::int64_t bytes, Move move) {
  static const Nodes nodes = read_nodes();
  if (nodes.count() < 2) return false;
  const auto plan = plan_by_node(table, bytes, nodes, pinned_cpus());
  if (plan) move(*plan);
  return plan.has_value();
}

#ifdef SPEEDTORCH_HAS_CUDA
bool is_cuda(const at::Tensor& tensor) { return tensor.device().is_cuda(); }

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

template <class Index>
void gather_on_gpu(const at::Tensor& table, kernels::ConstRows from, const Index* index, std::int64_t count,
                   kernels::Rows to, const RowsOptions& options) {
  const c10::cuda::CUDAGuard guard(table.device());
  kernels::gather_rows_ordered_cuda(from, index, count, to, c10::cuda::getCurrentCUDAStream(), options.order,
                                    workspace_of(options, table.device()),
                                    launch_on(table.device(), options));
}

template <class Index>
void scatter_on_gpu(kernels::ConstRows from, const Index* index, std::int64_t count, kernels::Rows to,
                    const at::Tensor& table, const RowsOptions& options) {
  const c10::cuda::CUDAGuard guard(table.device());
  kernels::scatter_rows_cuda(from, index, count, to, c10::cuda::getCurrentCUDAStream(),
                             launch_on(table.device(), options));
}
#endif

}  // namespace

void gather_rows(const at::Tensor& table, const at::Tensor& index, at::Tensor& out,
                 [[maybe_unused]] const RowsOptions& options) {
  check_untracked(table, "the table");
  check_untracked(out, "out");
  if (is_lazy(table) || is_lazy(index)) return gather_rows(resolved(table), resolved(index), out, options);
  if (index.dim() != 1 && out.dim() != table.dim()) {
    auto flat = flat_rows(out, index, table);
    if (flat.dim() == table.dim()) return gather_rows(table, index, flat, options);
  }
  check_operands(table, index, out, "out");
  const auto from = rows_of(table, "the table");
  const auto to = writable_rows_of(out, "out");
  check_apart(from, to, "out and the table");
  with_index(index, [&](const auto* indices) {
#ifdef SPEEDTORCH_HAS_CUDA
    if (is_cuda(table)) return gather_on_gpu(table, from, indices, index.numel(), to, options);
#endif
    const bool by_node = moved_by_node(from, index.numel() * from.row_bytes, [&](const NodePlan& plan) {
      kernels::gather_rows_by_node(from, indices, index.numel(), to, plan.owners,
                                   {plan.node_of_thread, parallel_for});
    });
    if (!by_node) kernels::gather_rows(from, indices, index.numel(), to, parallel_for);
  });
  bump_version(out);
}

void scatter_rows(at::Tensor& table, const at::Tensor& index, const at::Tensor& values,
                  [[maybe_unused]] const RowsOptions& options) {
  check_untracked(table, "the table");
  if (is_lazy(values) || is_lazy(index))
    return scatter_rows(table, resolved(index), resolved(values), options);
  if (index.dim() != 1 && values.dim() != table.dim()) {
    const auto flat = flat_rows(values, index, table);
    if (flat.dim() == table.dim()) return scatter_rows(table, index, flat, options);
  }
  check_operands(table, index, values, "values");
  const auto from = rows_of(values, "values");
  const auto to = writable_rows_of(table, "the table");
  check_apart(from, to, "values and the table");
  with_index(index, [&](const auto* indices) {
#ifdef SPEEDTORCH_HAS_CUDA
    if (is_cuda(table)) return scatter_on_gpu(from, indices, index.numel(), to, table, options);
#endif
    const bool by_node = moved_by_node(to, index.numel() * to.row_bytes, [&](const NodePlan& plan) {
      kernels::scatter_rows_by_node(from, indices, index.numel(), to, plan.owners,
                                    {plan.node_of_thread, parallel_for});
    });
    if (!by_node) kernels::scatter_rows(from, indices, index.numel(), to, parallel_for);
  });
  bump_version(table);
}

std::int64_t gather_workspace_bytes(const at::Tensor& table, [[maybe_unused]] const at::Tensor& index,
                                    [[maybe_unused]] IndexOrder order) {
  check_reachable(table.device());
#ifdef SPEEDTORCH_HAS_CUDA
  if (is_cuda(table)) {
    const c10::cuda::CUDAGuard guard(table.device());
    return kernels::ordered_workspace_bytes(order, index.numel(), static_cast<int>(index.element_size()),
                                            rows_of(resolved(table), "the table").row_bytes);
  }
#endif
  return 0;
}

void check_index_errors([[maybe_unused]] at::Device device) {
#ifdef SPEEDTORCH_HAS_CUDA
  if (!device.is_cuda() || !cuda_status().available) return;  // without a GPU nothing can have run there
  device = gpu_of(device, "index errors");
  const auto errors = take_cuda_index_errors(device);
  if (errors.count == 0) return;
  throw IndexError(errors.seen_position, errors.seen_index, errors.seen_rows,
                   " (one of " + std::to_string(errors.count) + " on " + device.str() +
                       " since the last check; the smallest position is " +
                       std::to_string(errors.first_position) + ")");
#endif
}

void stream_copy(const at::Tensor& from, at::Tensor& to, CopyWay way) {
  if (is_lazy(from)) return stream_copy(resolved(from), to, way);
  check_in_memory(to, "the target of a copy");
  if (from.nbytes() != to.nbytes() || !from.is_contiguous() || !to.is_contiguous()) {
    throw ShapeError("cannot copy " + shape_of(from) + " to " + shape_of(to) +
                     ": both must be contiguous and of the same bytes");
  }
  if (from.device() != to.device()) {
    throw PlacementError("cannot copy from " + from.device().str() + " to " + to.device().str() +
                         ": one device is needed");
  }
  check_reachable(from.device());
  auto* target = static_cast<std::byte*>(to.data_ptr());
  const auto* source = static_cast<const std::byte*>(from.const_data_ptr());
  const auto bytes = static_cast<std::int64_t>(from.nbytes());
  check_apart({source, 1, bytes, bytes}, {target, 1, bytes, bytes}, "the two sides of a copy");
#ifdef SPEEDTORCH_HAS_CUDA
  if (is_cuda(from)) {
    const c10::cuda::CUDAGuard guard(from.device());
    kernels::stream_copy_cuda(target, source, bytes, c10::cuda::getCurrentCUDAStream());
    bump_version(to);
    return;
  }
#endif
  kernels::stream_copy(target, source, bytes, parallel_for, way);
  bump_version(to);
}

}  // namespace speedtorch
