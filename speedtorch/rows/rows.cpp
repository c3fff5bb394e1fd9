#include "speedtorch/rows/rows.h"

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/node_rows.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/rows/cuda_index_errors.h"
#include "speedtorch/rows/gpu_rows.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/system/nodes.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

/// Calls `move(plan)` if the machine has several nodes and moving by node pays. Returns false otherwise.
template <class Move>
bool moved_by_node(kernels::ConstRows table, std::int64_t bytes, Move move) {
  static const Nodes nodes = read_nodes();
  if (nodes.count() < 2) return false;
  const auto plan = plan_by_node(table, bytes, nodes, pinned_cpus());
  if (plan) move(*plan);
  return plan.has_value();
}

void gather_on_host(kernels::ConstRows from, const at::Tensor& index, kernels::Rows to) {
  with_index(index, [&](const auto* indices) {
    const bool by_node = moved_by_node(from, index.numel() * from.row_bytes, [&](const NodePlan& plan) {
      kernels::gather_rows_by_node(from, indices, index.numel(), to, plan.owners,
                                   {plan.node_of_thread, parallel_for});
    });
    if (!by_node) kernels::gather_rows(from, indices, index.numel(), to, parallel_for);
  });
}

void scatter_on_host(kernels::ConstRows from, const at::Tensor& index, kernels::Rows to) {
  with_index(index, [&](const auto* indices) {
    const bool by_node = moved_by_node(to, index.numel() * to.row_bytes, [&](const NodePlan& plan) {
      kernels::scatter_rows_by_node(from, indices, index.numel(), to, plan.owners,
                                    {plan.node_of_thread, parallel_for});
    });
    if (!by_node) kernels::scatter_rows(from, indices, index.numel(), to, parallel_for);
  });
}

}  // namespace

void gather_rows(const at::Tensor& table, const at::Tensor& index, at::Tensor& out,
                 const RowsOptions& options) {
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
  check_no_overlap(from, to, "out and the table");
  check_index_apart(index, to, "the index and out");
  if (table.is_cuda())
    gather_on_gpu(table, from, index, to, options);
  else
    gather_on_host(from, index, to);
  bump_version(out);
}

void scatter_rows(at::Tensor& table, const at::Tensor& index, const at::Tensor& values,
                  const RowsOptions& options) {
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
  check_no_overlap(from, to, "values and the table");
  check_index_apart(index, to, "the index and the table");
  if (table.is_cuda())
    scatter_on_gpu(from, index, to, table, options);
  else
    scatter_on_host(from, index, to);
  bump_version(table);
}

std::int64_t gather_workspace_bytes(const at::Tensor& table, const at::Tensor& index, IndexOrder order) {
  check_reachable(table.device());
  return table.is_cuda() ? workspace_bytes_on_gpu(table, index, order) : 0;
}

void check_index_errors(at::Device device) {
  if (!device.is_cuda() || !cuda_status().available) return;  // without a GPU nothing can have run there
  device = gpu_of(device, "index errors");
  const auto errors = take_cuda_index_errors(device);
  if (errors.count == 0) return;
  throw IndexError(errors.seen_position, errors.seen_index, errors.seen_rows,
                   " (one of " + std::to_string(errors.count) + " on " + device.str() +
                       " since the last check; the smallest position is " +
                       std::to_string(errors.first_position) + ")");
}

void stream_copy(const at::Tensor& from, at::Tensor& to, CopyWay way) {
  if (is_lazy(from)) return stream_copy(resolved(from), to, way);
  check_in_memory(to, "the target of a copy");
  check_writable(to, "the target of a copy");
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
  check_no_overlap({source, 1, bytes, bytes}, {target, 1, bytes, bytes}, "the two sides of a copy");
  if (from.is_cuda())
    stream_copy_on_gpu(target, source, bytes, from.device());
  else
    kernels::stream_copy(target, source, bytes, parallel_for, way);
  bump_version(to);
}

}  // namespace speedtorch
