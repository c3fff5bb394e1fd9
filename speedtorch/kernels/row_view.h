/// Rows of bytes in memory, as every kernel sees them. C++17, so that CUDA sources can include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace speedtorch::kernels {

/// Rows to read. Row i is the `row_bytes` bytes from `data + i * stride_bytes`. Neither `data` nor the stride
/// need be aligned. A stride below `row_bytes` (overlapping rows) is valid.
struct ConstRows {
  const std::byte* data;
  std::int64_t rows;
  std::int64_t row_bytes;     ///< at least 1
  std::int64_t stride_bytes;  ///< from one row's start to the next
};

/// Rows to write, like ConstRows but with a stride of at least `row_bytes`.
struct Rows {
  std::byte* data;
  std::int64_t rows;
  std::int64_t row_bytes;
  std::int64_t stride_bytes;

  operator ConstRows() const { return {data, rows, row_bytes, stride_bytes}; }
};

/// The side whose rows the index selects: the one that is read (gather) or the one that is written (scatter).
enum class Direction { gather, scatter };

/// How a contiguous block is copied past the cache. Which is the fastest differs by processor and page size.
enum class CopyWay {
  plain,  ///< line after line
  ahead,  ///< likewise, with the line 2 KiB further on prefetched into the second-level cache
  pages,  ///< four lines of each of eight pages in turn, with those of the next eight pages prefetched
};

/// Checks that `count` rows can move: both sides have rows of one width, `out` (`values`) has exactly `count`
/// of them, and rows to write do not overlap. Rows may have no bytes; then only the indices count.
/// @throws ShapeError naming both sides
void check_gather_shapes(ConstRows table, std::int64_t count, Rows out);
void check_scatter_shapes(ConstRows values, std::int64_t count, Rows table);

/// An additional check for GPU kernels. @throws ShapeError for rows of no bytes
void require_bytes_in_rows(ConstRows table);

}  // namespace speedtorch::kernels
