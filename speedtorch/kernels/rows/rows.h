/// Row movement on the host: gather, scatter and the contiguous copy that is their ceiling.
///
/// All offsets are 64-bit bytes; any row width from 1 byte, any alignment. The memory that is read and the
/// memory that is written must not overlap. Small movements stay on the calling thread and never call
/// `parallel_for`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "speedtorch/kernels/index_type.h"
#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/row_view.h"

namespace speedtorch::kernels {

/// out[i] = table[index[i]] for i in [0, count), with int32 or int64 indices, as below. The index may repeat
/// rows. Checks every index before it writes.
/// @throws ShapeError unless `out` has `count` rows of the table's width; IndexError for an index that names
/// no row.
template <IndexType Index>
void gather_rows(ConstRows table, const Index* index, std::int64_t count, Rows out, ParallelFor parallel_for);

/// table[index[i]] = values[i] for i in [0, count); other rows, and the bytes between rows, stay as they are.
/// Where the index repeats a row, which of its values wins is unspecified, and on several threads the row may
/// end as a mix of them: a caller with duplicates decides before (reject, last wins, accumulate).
/// @throws ShapeError unless `values` has `count` rows of the table's width; IndexError as above.
template <IndexType Index>
void scatter_rows(ConstRows values, const Index* index, std::int64_t count, Rows table,
                  ParallelFor parallel_for);

/// out[places[i]] = table[index[i]] for i in [0, count), as gather_rows(). No two places are the same. Part
/// of a movement that writes most of `out`, which decides whether rows are written past the cache.
/// @throws ShapeError unless the rows of both have the same width; IndexError for an index or a place that
/// names no row.
void place_rows(ConstRows table, const std::int64_t* index, const std::int64_t* places, std::int64_t count,
                Rows out, ParallelFor parallel_for);

/// Checks that each of `count` indices is in [0, rows): one pass of vector arithmetic, far below the
/// movement's cost.
/// @throws IndexError naming the first bad position, its value and the valid range.
template <IndexType Index>
void check_indices(const Index* index, std::int64_t count, std::int64_t rows);

/// The same on several threads, in ranges of at least `grain`.
template <IndexType Index>
void check_indices(const Index* index, std::int64_t count, std::int64_t rows, std::int64_t grain,
                   ParallelFor parallel_for);

/// Copies `bytes` from one contiguous block to another, past the cache (non-temporal stores) where the block
/// is too large to stay in it. The fastest way is the ceiling of any row movement of the same payload.
/// @throws ShapeError if `bytes` is negative.
void stream_copy(std::byte* to, const std::byte* from, std::int64_t bytes, ParallelFor parallel_for,
                 CopyWay way = CopyWay::plain);

}  // namespace speedtorch::kernels
