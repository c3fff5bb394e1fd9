#include "speedtorch/rows/row_operands.h"

#include <string>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

/// True if the elements of one row are contiguous. Checked by hand, because creating a tensor of the row
/// costs 0.5 us, as much as moving 100 rows.
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

// These functions are out of line and cold. With their messages inlined, a gather of one row took longer (53
// -> 67 ns).
[[noreturn, gnu::noinline, gnu::cold]] void refuse_device(at::Device device) {
  if (device.is_cuda()) throw PlacementError(cuda_refusal("a tensor on " + device.str()));
  throw PlacementError("a tensor is on " + device.str() + "; rows move between tensors on cpu or on cuda");
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_shared_rows(const at::Tensor& tensor, const char* name) {
  throw ShapeError(std::string("the rows of ") + name + " (" + shape_of(tensor) +
                   ") overlap; each row that is written needs its own memory");
}

}  // namespace

void refuse_tracked(const char* name) {
  throw AutogradError(std::string(name) +
                      " requires a gradient, and this movement is not recorded: gather into a new "
                      "tensor, or switch gradients off (torch.no_grad() or torch::NoGradGuard)");
}

void refuse_overlap(const char* names) {
  throw ShapeError(std::string(names) + " overlap; the destination needs its own memory");
}

kernels::Rows rows_of(const at::Tensor& tensor, const char* name) {
  check_in_memory(tensor, name);
  if (tensor.dim() == 0) throw ShapeError(std::string(name) + " is a scalar; it needs rows");
  const auto item = static_cast<std::int64_t>(tensor.element_size());
  const auto rows = tensor.size(0);
  const auto row_elements = c10::multiply_integers(tensor.sizes().slice(1));
  if (tensor.numel() > 0 && !row_is_contiguous(tensor)) {
    throw ShapeError(std::string("the rows of ") + name + " (" + layout_of(tensor) +
                     ") are not contiguous; call contiguous()");
  }
  const auto stride = rows > 1 ? tensor.stride(0) : row_elements;
  return {static_cast<std::byte*>(tensor.data_ptr()), rows, row_elements * item, stride * item};
}

kernels::Rows writable_rows_of(const at::Tensor& tensor, const char* name) {
  check_writable(tensor, name);
  const auto rows = rows_of(tensor, name);
  if (rows.rows > 1 && rows.stride_bytes < rows.row_bytes) refuse_shared_rows(tensor, name);
  return rows;
}

void check_reachable(at::Device device) {
  if (device.is_cpu() || (device.is_cuda() && built_with_cuda())) return;
  refuse_device(device);
}

void check_operands(const at::Tensor& table, const at::Tensor& index, const at::Tensor& rows,
                    const char* rows_name) {
  if (index.scalar_type() != at::kLong && index.scalar_type() != at::kInt) {
    throw ShapeError("the index is " + shape_of(index) + "; int32 or int64 is needed");
  }
  if (!index.is_contiguous())
    throw ShapeError("the index (" + layout_of(index) + ") is not contiguous; call contiguous()");
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

at::Tensor flat_rows(const at::Tensor& rows, const at::Tensor& index, const at::Tensor& table) {
  if (table.dim() == 0 || !rows.is_contiguous()) return rows;
  const auto row = table.sizes().slice(1);
  if (rows.sizes() != joined_sizes(index.sizes(), row)) return rows;
  return rows.detach().view(joined_sizes({index.numel()}, row));
}

}  // namespace speedtorch
