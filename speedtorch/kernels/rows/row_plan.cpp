// What a movement of these operands does on this machine: stores and prefetch. The figures behind each choice
// are in docs/kernels.md.

#include <algorithm>

#include "speedtorch/kernels/cache_size.h"
#include "speedtorch/kernels/rows/row_moves.h"

namespace speedtorch::kernels {
namespace {

/// From the prefetch of a line to its use. Of 512 B rows on one core, 16 lines ahead give 11.5 GB/s, 32 13.3,
/// 64 16.4, 128 and 256 17.6; other widths likewise, and on two cores it is flat from 64 on.
constexpr std::int64_t kLinesAhead = 128;

/// A row whose ends share lines with its neighbours, from which streaming the lines between pays: the ends of
/// a scattered row are read first then, and they alone (516 B: 1.2 times cached stores, 264 B: 0.95).
constexpr std::int64_t kRaggedScatterBytes = 512;

/// Likewise in a gather, where the neighbour's stores follow soon and complete the line in the cache (656 B:
/// cached 26 GB/s, streaming 21).
constexpr std::int64_t kRaggedGatherBytes = 2048;

std::int64_t prefetch_distance(std::int64_t row_bytes) {
  const std::int64_t lines = (row_bytes + kLineBytes - 1) / kLineBytes;
  return kLinesAhead / std::min(lines, static_cast<std::int64_t>(kUnrolledLines));
}

bool is_whole_lines(Rows to) {
  return reinterpret_cast<std::uintptr_t>(to.data) % kLineBytes == 0 && to.stride_bytes % kLineBytes == 0 &&
         to.row_bytes % kLineBytes == 0;
}

/// A streamed line is not read before it is written, and leaves the cache to others.
Stores choose_stores(Rows to, std::int64_t moved_rows, std::int64_t ragged_bytes) {
  const bool large = outgrows_cache(moved_rows * to.row_bytes);
  return large && (is_whole_lines(to) || to.row_bytes >= ragged_bytes) ? Stores::streaming : Stores::cached;
}

template <class Index>
RowMove<Index> move_of(ConstRows from, const Index* index, Rows to, Direction direction) {
  RowMove<Index> move{};
  move.from = from.data;
  move.from_stride = from.stride_bytes;
  move.to = to.data;
  move.to_stride = to.stride_bytes;
  move.row_bytes = from.row_bytes;
  move.index = index;
  move.direction = direction;
  return move;
}

}  // namespace

bool outgrows_cache(std::int64_t bytes) { return bytes > last_level_cache_bytes() / 2; }

template <class Index>
RowMove<Index> plan_gather(ConstRows table, const Index* index, Rows out) {
  auto move = move_of(table, index, out, Direction::gather);
  move.stores = choose_stores(out, out.rows, kRaggedGatherBytes);
  move.prefetch_rows = prefetch_distance(table.row_bytes);
  return move;
}

template <class Index>
RowMove<Index> plan_scatter(ConstRows values, const Index* index, Rows table) {
  auto move = move_of(values, index, table, Direction::scatter);
  // A table smaller than its values, which come again and again, stays in the cache.
  move.stores = choose_stores(table, std::min(values.rows, table.rows), kRaggedScatterBytes);
  const bool reads_nothing = move.stores == Stores::streaming && is_whole_lines(table);
  move.prefetch_rows = reads_nothing ? 0 : prefetch_distance(table.row_bytes);
  return move;
}

template RowMove<std::int32_t> plan_gather(ConstRows, const std::int32_t*, Rows);
template RowMove<std::int64_t> plan_gather(ConstRows, const std::int64_t*, Rows);
template RowMove<std::int32_t> plan_scatter(ConstRows, const std::int32_t*, Rows);
template RowMove<std::int64_t> plan_scatter(ConstRows, const std::int64_t*, Rows);

}  // namespace speedtorch::kernels
