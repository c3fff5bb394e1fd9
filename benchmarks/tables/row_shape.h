/// The shape of a table's rows, from the dtype and dim of a case.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

#include "reports/record.h"

namespace stbench {

/// A table of `rows` rows of `row_elements` elements.
struct RowShape {
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  at::ScalarType dtype = at::kFloat;
  [[nodiscard]] std::int64_t row_bytes() const {
    return row_elements * static_cast<std::int64_t>(c10::elementSize(dtype));
  }
  [[nodiscard]] std::int64_t bytes() const { return rows * row_bytes(); }
};

/// The dtype of a name as reports have it; nothing for `bytes`.
/// @throws speedtorch::ShapeError for an unknown name
std::optional<at::ScalarType> dtype_named(const std::string& name);
/// The name that reports, NumPy and Python's torch have for a dtype; `bytes` for nothing.
std::string dtype_name(std::optional<at::ScalarType> dtype);

/// Rows of `dim` elements of `dtype`. Without a dtype, rows of `dim` bytes: as the widest integers that
/// divide them, which is the fastest type for LibTorch.
RowShape row_shape(std::optional<at::ScalarType> dtype, std::int64_t rows, std::int64_t dim);

/// The row shape of a case of any suite. @throws speedtorch::ShapeError for an unknown dtype
RowShape shape_of(const reports::Identity& id);

}  // namespace stbench
