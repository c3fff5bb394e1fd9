#include "speedtorch/rows.h"

#include <cstring>
#include <sstream>

#include "kernels/node_rows.h"
#include "kernels/rows.h"
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/nodes.h"
#include "speedtorch/row_overlap.h"
#include "speedtorch/threads.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/cuda_ordered_rows.h"
#include "kernels/cuda_rows.h"
#include "speedtorch/cuda_index_errors.h"
#endif

namespace speedtorch {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

/// Whether the elements of one row follow each other. By hand: a tensor of the row costs 0.5 us to make, as
/// much as moving 100 rows.
bool row_is_contiguous(const at::Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  std::int64_t expected = 1;
  for (std::size_t d = sizes.size() - 1; d > 0; --d) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

/// The tensor's rows as the kernels see them. @throws ShapeError where a row is not contiguous.
kernels::Rows rows_of(const at::Tensor& tensor, const char* name) {
  if (tensor.dim() == 0) throw ShapeError(std::string(name) + " is a scalar; it needs rows");
  const auto item = static_cast<std::int64_t>(tensor.element_size());
  const auto rows = tensor.size(0);
  const auto row_elements = c10::multiply_integers(tensor.sizes().slice(1));
  if (tensor.numel() > 0 && !row_is_contiguous(tensor)) {
    throw ShapeError(std::string("the rows of ") + name + " (" + shape_of(tensor) +
                     ") are not contiguous; call contiguous()");
  }
  const auto stride = rows > 1 ? tensor.stride(0) : row_elements;
  return {static_cast<std::byte*>(tensor.data_ptr()), rows, row_elements * item, stride * item};
}

// What throws is kept out of the way of what does not: with the messages inlined a gather of one row took 67
// ns for 53.
[[noreturn, gnu::noinline, gnu::cold]] void refuse_device(at::Device device) {
#ifndef SPEEDTORCH_HAS_CUDA
  if (device.is_cuda()) throw PlacementError(cuda_refusal("a tensor on " + device.str()));
#endif
  throw PlacementError("a tensor is on " + device.str() + "; rows move between tensors on cpu or on cuda");
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_overlap(const char* names) {
  throw ShapeError(std::string(names) + " overlap; what is written needs its own memory");
}

/// @throws PlacementError unless this build's kernels can follow the tensors of a device.
void check_reachable(at::Device device) {
#ifdef SPEEDTORCH_HAS_CUDA
  if (device.is_cuda()) return;
#endif
  if (!device.is_cpu()) refuse_device(device);
}

void check_apart(const kernels::ConstRows& from, const kernels::ConstRows& to, const char* names) {
  if (overlap(from, to)) refuse_overlap(names);
}

void check_operands(const at::Tensor& table, const at::Tensor& index, const at::Tensor& rows,
                    const char* rows_name) {
  if (index.scalar_type() != at::kLong && index.scalar_type() != at::kInt) {
    throw ShapeError("the index is " + shape_of(index) + "; int32 or int64 is needed");
  }
  if (!index.is_contiguous())
    throw ShapeError("the index (" + shape_of(index) + ") is not contiguous; call contiguous()");
  const bool same_row =
      table.dim() == rows.dim() && table.dim() > 0 && table.sizes().slice(1) == rows.sizes().slice(1);
  if (!same_row || table.scalar_type() != rows.scalar_type() || rows.size(0) != index.numel()) {
    throw ShapeError("table " + shape_of(table) + ", index " + shape_of(index) + " and " + rows_name + " " +
                     shape_of(rows) + " do not fit: " + rows_name +
                     " needs one row of the table's shape and dtype for each index");
  }
  if (table.device() != rows.device() || table.device() != index.device()) {
    throw PlacementError("the table is on " + table.device().str() + ", the index on " +
                         index.device().str() + ", " + rows_name + " on " + rows.device().str() +
                         "; all three must be on one device");
  }
  check_reachable(table.device());
}

/// Writes through raw pointers are unseen by autograd: tell it.
void bump_version(at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

template <class HostMove>
void with_index(const at::Tensor& index, HostMove move) {
  if (index.scalar_type() == at::kLong) {
    move(index.const_data_ptr<std::int64_t>());
  } else {
    move(index.const_data_ptr<std::int32_t>());
  }
}

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
  check_operands(table, index, out, "out");
  const auto from = rows_of(table, "the table");
  const auto to = rows_of(out, "out");
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

void scatter_rows(const at::Tensor& values, const at::Tensor& index, at::Tensor& table,
                  [[maybe_unused]] const RowsOptions& options) {
  check_operands(table, index, values, "values");
  const auto from = rows_of(values, "values");
  const auto to = rows_of(table, "the table");
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
                                            rows_of(table, "the table").row_bytes);
  }
#endif
  return 0;
}

void check_index_errors([[maybe_unused]] at::Device device) {
#ifdef SPEEDTORCH_HAS_CUDA
  if (!device.is_cuda() || !cuda_status().available) return;  // without a GPU nothing can have run there
  const auto errors = take_cuda_index_errors(device);
  if (errors.count == 0) return;
  throw IndexError(errors.seen_position, errors.seen_index, errors.seen_rows,
                   " (one of " + std::to_string(errors.count) + " on " + device.str() +
                       " since the last check; the smallest position is " +
                       std::to_string(errors.first_position) + ")");
#endif
}

void stream_copy(const at::Tensor& from, at::Tensor& to) {
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
  kernels::stream_copy(target, source, bytes, parallel_for);
  bump_version(to);
}

}  // namespace speedtorch
