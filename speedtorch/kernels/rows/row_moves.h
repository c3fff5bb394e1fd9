/// Between the public functions (rows.cpp) and the bodies that exist once per instruction set
/// (row_moves.cpp): a movement with every choice made. Tests use it to force a choice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "speedtorch/kernels/row_view.h"

namespace speedtorch::kernels {

constexpr std::int64_t kLineBytes = 64;  ///< of a cache line; streaming stores go by whole lines

/// Rows of up to this many lines have copies of their own, without a loop, and at most so many lines of
/// longer ones are prefetched.
constexpr std::size_t kUnrolledLines = 16;

/// How the bytes get to the destination.
enum class Stores {
  cached,     ///< ordinary stores
  streaming,  ///< whole destination lines by non-temporal stores, what is left of a row by ordinary ones
  /// Of a gather of rows without gaps, up to kStagedRowBytes each: rows are put together to whole lines in
  /// the first-level cache, which then go by non-temporal stores. Any other movement goes by `streaming`.
  staged,
};

/// Where prefetched lines wait.
enum class PrefetchTo {
  l1,  ///< the first-level cache
  l2,  ///< the second-level cache
};

constexpr std::int64_t kStagedRowBytes = 2048;

/// A gather or scatter of checked operands, ready to be done in any ranges of [0, number of indices).
template <class Index>
struct RowMove {
  const std::byte* from;
  std::int64_t from_stride;
  std::byte* to;
  std::int64_t to_stride;
  std::int64_t row_bytes;
  const Index* index;  ///< names rows of `from` in a gather, of `to` in a scatter
  Direction direction;
  Stores stores;
  PrefetchTo prefetch_to;
  std::int64_t prefetch_rows;  ///< how far ahead the indexed rows are prefetched; 0 for not at all
  /// One line in so many of a row of more than kUnrolledLines is prefetched. 0 for all lines, one by one
  /// between the stores of an earlier row: of streamed gathers only, others take it for 1.
  std::int64_t line_step;
  /// How far ahead the first lines of rows are prefetched besides; 0 for not at all.
  std::int64_t touch_rows;
  /// The rows of `to` that a gather writes; null if it writes one after the other. Not for int32 indices.
  const std::int64_t* places = nullptr;
};

/// Moves the rows of the indices [begin, end). What was streamed is visible to whoever synchronises with this
/// thread afterwards.
void run(const RowMove<std::int32_t>& move, std::int64_t begin, std::int64_t end);
void run(const RowMove<std::int64_t>& move, std::int64_t begin, std::int64_t end);

/// Whether each of `count` indices is in [0, rows).
bool all_inside(const std::int32_t* index, std::int64_t count, std::int64_t rows);
bool all_inside(const std::int64_t* index, std::int64_t count, std::int64_t rows);

/// Copies whole cache lines by streaming stores; `to` is aligned to a line, `from` need not be.
void stream_lines(std::byte* to, const std::byte* from, std::int64_t lines, CopyWay way);

}  // namespace speedtorch::kernels
