/// Checks the operands of a row movement and converts them for the kernels. For the library's own files.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "speedtorch/kernels/row_view.h"
#include "speedtorch/rows/row_overlap.h"

namespace speedtorch {

/// The tensor's rows as the kernels see them; `name` is for messages.
/// @throws ShapeError if it has no rows, or if a row is not contiguous; LazyTensorError, so resolve operands
/// that are only read
kernels::Rows rows_of(const at::Tensor& tensor, const char* name);

/// The rows of a tensor that is written. @throws ShapeError also if its rows overlap; FileError if it is in a
/// file that is open read-only
kernels::Rows writable_rows_of(const at::Tensor& tensor, const char* name);

/// @throws ShapeError naming all three, unless `rows` has a row of the table's shape and dtype per index;
/// PlacementError unless all are on one device that this build's kernels support
void check_operands(const at::Tensor& table, const at::Tensor& index, const at::Tensor& rows,
                    const char* rows_name);

/// @throws PlacementError unless this build's kernels support the device
void check_reachable(at::Device device);

[[noreturn, gnu::noinline, gnu::cold]] void refuse_tracked(const char* name);

/// @throws AutogradError if autograd would have to record the movement, which it cannot
inline void check_untracked(const at::Tensor& tensor, const char* name) {
  if (tensor.requires_grad() && at::GradMode::is_enabled()) refuse_tracked(name);
}

[[noreturn, gnu::noinline, gnu::cold]] void refuse_overlap(const char* names);

/// @throws ShapeError if they share bytes
inline void check_no_overlap(const kernels::ConstRows& from, const kernels::ConstRows& to,
                             const char* names) {
  if (overlap(from, to)) refuse_overlap(names);
}

/// `names` is for messages. @throws ShapeError if the contiguous index lies in rows that are written: the
/// kernels check it before they write and then read it again
inline void check_index_apart(const at::Tensor& index, const kernels::ConstRows& written, const char* names) {
  const auto bytes = static_cast<std::int64_t>(index.nbytes());
  check_no_overlap({static_cast<const std::byte*>(index.const_data_ptr()), 1, bytes, bytes}, written, names);
}

/// `rows` as a tensor with as many rows as `index` has numbers: itself, or a view if it has the index's shape
/// before the row's.
at::Tensor flat_rows(const at::Tensor& rows, const at::Tensor& index, const at::Tensor& table);

/// Calls `work` with a pointer to the numbers of an int32 or int64 index.
template <class Work>
void with_index(const at::Tensor& index, Work work) {
  if (index.scalar_type() == at::kLong) {
    work(index.const_data_ptr<std::int64_t>());
  } else {
    work(index.const_data_ptr<std::int32_t>());
  }
}

}  // namespace speedtorch
