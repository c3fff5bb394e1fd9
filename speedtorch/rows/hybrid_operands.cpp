#include "speedtorch/rows/hybrid_operands.h"

#include <string>

#include "speedtorch/error.h"
#include "speedtorch/kernels/rows/rows.h"
#include "speedtorch/rows/row_operands.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

void check_index(const char* name, const at::Tensor& index, at::Device device) {
  if (index.device() != device) {
    throw PlacementError(std::string(name) + " of a hybrid gather is on " + index.device().str() +
                         "; it must be on " + device.str());
  }
  check_in_memory(index, name);
  const bool integers = index.scalar_type() == at::kInt || index.scalar_type() == at::kLong;
  if (!integers || !index.is_contiguous()) {
    throw ShapeError(std::string(name) + " of a hybrid gather is " + layout_of(index) +
                     "; contiguous int32 or int64 is needed");
  }
}

}  // namespace

void check_hybrid_table(const at::Tensor& table, std::int64_t batch) {
  if (table.dim() == 0 || table.numel() == 0)
    throw ShapeError("a hybrid gather needs a table with rows, not " + layout_of(table));
  if (batch < 1)
    throw ShapeError("a hybrid gather needs batches of 1 row or more, not " + std::to_string(batch));
}

void check_hybrid_operands(const at::Tensor& table, std::int64_t batch, const at::Tensor& index,
                           const at::Tensor& host_index, const at::Tensor& out) {
  check_index("index", index, table.device());
  check_index("host_index", host_index, at::kCPU);
  const auto count = index.numel();
  if (count != host_index.numel() || count > batch) {
    throw ShapeError("a hybrid gather of up to " + std::to_string(batch) + " rows got " +
                     std::to_string(count) + " indices on the GPU and " + std::to_string(host_index.numel()) +
                     " on the host");
  }
  if (out.device() != table.device()) {
    throw PlacementError("out of a hybrid gather is on " + out.device().str() + "; it must be on " +
                         table.device().str());
  }
  check_in_memory(out, "out of a hybrid gather");
  const bool fits = out.is_contiguous() && out.dim() == table.dim() && out.size(0) == count &&
                    out.sizes().slice(1) == table.sizes().slice(1) &&
                    out.scalar_type() == table.scalar_type();
  if (!fits) {
    throw ShapeError("out of a hybrid gather is " + layout_of(out) + "; it needs " + std::to_string(count) +
                     " rows like those of the table, " + layout_of(table) + ", and to be contiguous");
  }
}

void check_hybrid_indices(const at::Tensor& host_index, std::int64_t first, std::int64_t rows) {
  const auto count = host_index.numel() - first;
  try {
    with_index(host_index,
               [&](const auto* numbers) { kernels::check_indices(numbers + first, count, rows); });
  } catch (const IndexError& error) {
    throw IndexError(first + error.position(), error.index(), error.rows());
  }
}

}  // namespace speedtorch
