#include "speedtorch/rows/row_overlap.h"

#include <algorithm>

namespace speedtorch {

bool rows_share_bytes(const kernels::ConstRows& from, const kernels::ConstRows& to) {
  if (from.row_bytes == 0 || to.row_bytes == 0) return false;
  const bool one_place = from.stride_bytes == 0;  // an expanded row
  const auto rows = one_place ? std::min<std::int64_t>(from.rows, 1) : from.rows;
  const auto stride = one_place ? from.row_bytes : from.stride_bytes;
  for (std::int64_t i = 0; i < to.rows; ++i) {
    const auto begin = to.data - from.data + i * to.stride_bytes;
    const auto end = begin + to.row_bytes;
    // The first row of `from` that ends after `begin` also starts first.
    const auto before = begin - from.row_bytes;
    const auto row = before < 0 ? 0 : before / stride + 1;
    if (row < rows && row * stride < end) return true;
  }
  return false;
}

}  // namespace speedtorch
