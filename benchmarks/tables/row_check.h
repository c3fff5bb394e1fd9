/// Compares rows bit by bit with a reference that is computed, not copied, or, for the table of a file, read
/// from it once more.
///
/// The fill is a hash of the seed and of the 8-byte word's position in the table. So swapped rows, shifted
/// columns, stale and incomplete copies all differ from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "benchmarks/tables/content.h"
#include "harness/benchmark_case.h"
#include "speedtorch/memory/memory.h"

namespace stbench {

/// The content that has what a table row should hold.
using ContentOf = std::function<Content(std::int64_t row)>;

/// Rows of `row_bytes` bytes in a block of any memory: host memory in place, device memory in blocks through
/// LibTorch.
class RowBytes {
 public:
  RowBytes(const speedtorch::Memory& memory, std::int64_t rows, std::int64_t row_bytes);
  /// Compares the named rows with their content. `what` names them in the words of a mismatch.
  [[nodiscard]] harness::Check check(std::span<const std::int64_t> rows, const ContentOf& content_of,
                                     const char* what) const;
  /// Compares every row with one content, as one stream of bytes.
  [[nodiscard]] harness::Check check_all(Content content, const char* what) const;
  /// Overwrites the named rows with a pattern that no fill contains, and hardly any file.
  void poison(std::span<const std::int64_t> rows) const;
  /// Writes its content into each of the named rows.
  void write_content(std::span<const std::int64_t> rows, const ContentOf& content_of) const;
  /// Makes the pages of the named rows dirty without changing them, because the next write to a clean page of
  /// a file faults.
  void dirty(std::span<const std::int64_t> rows) const;

 private:
  const speedtorch::Memory& memory_;
  std::int64_t rows_, row_bytes_;
};

/// Fills row i of `bytes` (CPU, contiguous, n rows) with row `rows[i]` of its content.
void fill_rows(const at::Tensor& bytes, std::span<const std::int64_t> rows, const ContentOf& content_of);

/// Overwrites a tensor with a pattern that no fill contains.
void poison(at::Tensor& tensor);

/// How rows are compared: bit by bit; or as numbers if the method adds them to zero (any NaN equals any NaN,
/// and -0 equals 0).
enum class Equality { bits, numbers };

/// Compares row i of `result` (any device) with row `rows[i]` of its content. A result that is not
/// `rows.size()` rows of `row_bytes` bytes is wrong in every row. `numbers` is for floating dtypes only.
harness::Check check_rows(const at::Tensor& result, std::span<const std::int64_t> rows,
                          std::int64_t row_bytes, const ContentOf& content_of, const char* what,
                          Equality equality = Equality::bits);
/// The same with one content for all rows.
harness::Check check_rows(const at::Tensor& result, std::span<const std::int64_t> rows,
                          std::int64_t row_bytes, Content content, const char* what,
                          Equality equality = Equality::bits);

/// Adds what `more` found to `check`.
void merge(harness::Check& check, const harness::Check& more);

}  // namespace stbench
