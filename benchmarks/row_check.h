/// The checks of the transfer suite: every row compared bit by bit with a reference that is computed, not
/// copied.
///
/// The fill is a hash of the seed and of the 8-byte word's position in the table, so a swapped row, a shifted
/// column, a stale or half-done copy all differ from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "harness/contestant.h"
#include "speedtorch/memory.h"

namespace stbench {

/// Rows of `row_bytes` bytes in a block of memory, wherever it is.
class RowBytes {
 public:
  RowBytes(const speedtorch::Memory& memory, std::int64_t rows, std::int64_t row_bytes);
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t row_bytes() const { return row_bytes_; }
  /// The named rows as a CPU byte tensor [n, row_bytes], copied by plain loops (or by LibTorch from a
  /// device).
  [[nodiscard]] at::Tensor read(const std::vector<std::int64_t>& rows) const;
  /// Overwrites the named rows with a pattern that no fill contains.
  void poison(const std::vector<std::int64_t>& rows) const;
  /// Writes the seed's fill into the named rows.
  void write_fill(const std::vector<std::int64_t>& rows, std::uint64_t seed) const;

 private:
  const speedtorch::Memory& memory_;
  std::int64_t rows_, row_bytes_;
};

/// Fills row i of `bytes` (CPU, contiguous, n rows) with what the seed's fill has in row `rows[i]` of a
/// table.
void fill_rows(const at::Tensor& bytes, const std::vector<std::int64_t>& rows, std::uint64_t seed);

/// Overwrites a tensor with a pattern that no fill contains.
void poison(at::Tensor& tensor);

/// Compares row i of `bytes` (any device, contiguous, n rows) with row `rows[i]` of the seed's fill.
harness::Check check_rows(const at::Tensor& bytes, const std::vector<std::int64_t>& rows, std::uint64_t seed,
                          const char* what);

/// Adds what `more` found to `check`.
void merge(harness::Check& check, const harness::Check& more);

}  // namespace stbench
