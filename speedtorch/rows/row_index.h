/// The index of a row operation: a tensor of row numbers, or a range of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <variant>

namespace speedtorch {

/// Rows `begin`, `begin + step`, ... below `end`; `step` is 1 or more.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

/// A tensor of int32 or int64 of any shape, on any device, contiguous or not; or a range.
class RowIndex {
 public:
  RowIndex(at::Tensor numbers) : which_(std::move(numbers)) {}  // NOLINT: meant to convert
  RowIndex(RowRange range) : which_(range) {}                   // NOLINT: meant to convert

  /// Returns the numbers as a contiguous tensor on `device`, in the index's shape, without a copy if they are
  /// already there. Checks a range against `rows`.
  /// @throws ShapeError for numbers that are neither int32 nor int64, or a step below 1; IndexError for a
  /// range beyond `rows`
  [[nodiscard]] at::Tensor numbers(std::int64_t rows, at::Device device) const;

 private:
  std::variant<at::Tensor, RowRange> which_;
};

}  // namespace speedtorch
