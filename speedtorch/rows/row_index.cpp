#include "speedtorch/rows/row_index.h"

#include <ATen/ops/arange.h>

#include <string>

#include "speedtorch/error.h"
#include "speedtorch/tensors.h"

namespace speedtorch {
namespace {

at::Tensor numbers_of(const RowRange& range, std::int64_t rows) {
  const auto& [begin, end, step] = range;
  if (step < 1) throw ShapeError("a range of rows needs a step of 1 or more, not " + std::to_string(step));
  if (begin >= end && begin >= 0 && begin <= rows) return at::arange(0, at::kLong);
  const auto text = " (rows " + std::to_string(begin) + " to " + std::to_string(end) + " were asked for)";
  if (begin < 0 || begin >= rows) throw IndexError(0, begin, rows, text);
  const auto first_beyond = (rows - 1 - begin) / step + 1;  // the position
  if (first_beyond * step < end - begin)
    throw IndexError(first_beyond, begin + first_beyond * step, rows, text);
  return at::arange(begin, end, step, at::kLong);
}

}  // namespace

at::Tensor RowIndex::numbers(std::int64_t rows, at::Device device) const {
  if (const auto* range = std::get_if<RowRange>(&which_)) return numbers_of(*range, rows).to(device);
  const auto& tensor = std::get<at::Tensor>(which_);
  if (!tensor.defined()) throw ShapeError("the index is undefined; a tensor of int32 or int64 is needed");
  if (tensor.scalar_type() != at::kLong && tensor.scalar_type() != at::kInt)
    throw ShapeError("the index is " + shape_of(tensor) + "; int32 or int64 is needed");
  return resolved(tensor.to(device)).contiguous();
}

}  // namespace speedtorch
