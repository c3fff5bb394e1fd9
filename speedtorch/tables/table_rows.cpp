#include "speedtorch/tables/table_rows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/memory/new_output.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

std::vector<std::int64_t> rows_shape(const Table& table, at::IntArrayRef places) {
  return joined_sizes(places, table.sizes().slice(1));
}

at::Device device_of(const Table& table) { return table.memory()->device(); }

Route route_to(const Table& table, at::Device model) {
  return route_of(table.placement(), device_of(table), model);
}

/// @throws PlacementError if rows cannot move to the device
void check_model(at::Device model) {
  if (model.is_cuda()) gpu_of(model, "a model");
  check_reachable(model);
}

/// Throws, naming both shapes, before anything is moved or staged.
void check_fits(const Table& table, const at::Tensor& numbers, const at::Tensor& rows, const char* name) {
  if (rows.sizes() == rows_shape(table, {numbers.numel()}) && rows.scalar_type() == table.dtype()) return;
  throw ShapeError(std::string("table ") + c10::toString(table.dtype()) + " " + c10::str(table.sizes()) +
                   ", index " + shape_of(numbers) + " and " + name + " " + shape_of(rows) +
                   " do not fit: " + name + " needs one row of the table's shape and dtype for each index");
}

/// A view of `rows` with one dimension for the index.
at::Tensor flat(const Table& table, const at::Tensor& numbers, const at::Tensor& rows) {
  if (rows.sizes() != rows_shape(table, numbers.sizes()) || numbers.dim() == 1) return rows;
  return rows.detach().view(rows_shape(table, {numbers.numel()}));
}

/// Host memory that the copy engine reaches. LibTorch's pool keeps it until the copies are done.
at::Tensor staging(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).pinned_memory(true));
}

void gather_flat(const Table& table, const at::Tensor& numbers, at::Tensor& out) {
  const at::NoGradGuard unrecorded;
  const auto route = route_to(table, out.device());
  if (route == Route::in_place) return gather_rows(table.tensor(), numbers, out);
  if (route == Route::host) {
    wait_for_gpu(table);
    return gather_rows(table.host_tensor(), numbers, out);
  }
  auto rows = route == Route::staged
                  ? staging(rows_shape(table, {numbers.numel()}), table.dtype())
                  : at::empty(rows_shape(table, {numbers.numel()}),
                              at::TensorOptions().dtype(table.dtype()).device(device_of(table)));
  gather_rows(route == Route::staged ? table.host_tensor() : table.tensor(), numbers, rows);
  out.copy_(rows, /*non_blocking=*/route == Route::staged);
}

/// The device on which this route needs the index.
at::Device index_device(const Table& table, Route route) {
  return route == Route::host || route == Route::staged ? at::Device(at::kCPU) : device_of(table);
}

}  // namespace

std::string_view to_string(Route route) {
  constexpr std::string_view names[] = {"host", "in_place", "staged", "fetched"};
  return names[static_cast<std::size_t>(route)];
}

Route route_of(Placement placement, at::Device on, at::Device model) {
  if (!needs_cuda(placement)) return model.is_cpu() ? Route::host : Route::staged;
  if (model.is_cpu()) return placement == Placement::pinned ? Route::host : Route::fetched;
  return on == model ? Route::in_place : Route::fetched;
}

at::Device index_device(const Table& table, at::Device model) {
  return index_device(table, route_to(table, model));
}

at::Tensor gather_rows(const Table& table, const RowIndex& index, at::Device model) {
  check_model(model);
  if (model.is_cuda()) model = gpu_of(model, "a model");
  const auto numbers = index.numbers(table.rows(), index_device(table, model));
  auto out = new_output(rows_shape(table, {numbers.numel()}),
                        at::TensorOptions().dtype(table.dtype()).device(model));
  gather_flat(table, numbers, out);
  return numbers.dim() == 1 ? out : out.view(rows_shape(table, numbers.sizes()));
}

void gather_rows(const Table& table, const RowIndex& index, at::Tensor& out) {
  check_untracked(out, "out");
  check_model(out.device());
  const auto numbers = index.numbers(table.rows(), index_device(table, out.device()));
  auto rows = flat(table, numbers, out);
  check_fits(table, numbers, rows, "out");
  gather_flat(table, numbers, rows);
}

void scatter_rows(const Table& table, const RowIndex& index, const at::Tensor& values,
                  Duplicates duplicates) {
  table.require_writable();
  check_model(values.device());
  const auto route = route_to(table, values.device());
  const bool on_host = route == Route::host || route == Route::staged;
  const auto numbers = index.numbers(table.rows(), index_device(table, route));
  const auto rows = flat(table, numbers, values.detach());
  check_fits(table, numbers, rows, "values");
  if (on_host) wait_for_gpu(table);
  auto target = on_host ? table.host_tensor() : table.tensor();
  scatter_rows(target, numbers, rows.to(target.device()), duplicates);
}

at::Tensor host_copy(const Table& table) {
  auto copy = at::empty(table.sizes(), table.dtype());
  each_piece(table, kPieceBytes, [&](const at::Tensor& rows, std::int64_t first) {
    copy.narrow(0, first, rows.size(0)).copy_(rows);
  });
  return copy;
}

void each_piece(const Table& table, std::int64_t bytes,
                const std::function<void(const at::Tensor& rows, std::int64_t first_row)>& piece) {
  if (bytes < 1) throw ShapeError("a piece of a table needs 1 byte or more, not " + std::to_string(bytes));
  if (table.rows() == 0) return;
  const auto row_bytes = std::max<std::int64_t>(1, table.bytes() / table.rows());
  const auto step = std::max<std::int64_t>(1, bytes / row_bytes);
  wait_for_gpu(table);
  const auto all = table.memory()->on_host() ? table.host_tensor() : table.tensor();
  for (std::int64_t first = 0; first < table.rows(); first += step)
    piece(all.narrow(0, first, std::min(step, table.rows() - first)).cpu(), first);
}

}  // namespace speedtorch
