// What the public functions check and choose; the work itself is in row_moves.cpp.

#include "kernels/rows.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "kernels/cache_size.h"
#include "kernels/error.h"
#include "kernels/row_moves.h"

namespace speedtorch::kernels {
namespace {

/// The payload below which waking a second thread costs more than it saves.
constexpr std::int64_t kGrainBytes = 32 << 10;

/// As kGrainBytes, in indices of the check: 0.1 ns each.
constexpr std::int64_t kGrainIndices = 128 << 10;

/// A row from which gathering past the cache wins: below, the stores are few and the loads what is waited
/// for.
constexpr std::int64_t kStreamedGatherBytes = 512;

/// Likewise for a scatter whose rows end amid lines: its ends then cost less than its whole lines save.
constexpr std::int64_t kStreamedRaggedBytes = 2048;

/// About as many lines ahead as a core can have under way (64), in rows.
std::int64_t prefetch_distance(std::int64_t row_bytes) {
  return std::clamp<std::int64_t>(4096 / row_bytes, 8, 32);
}

bool is_whole_lines(Rows to) {
  return reinterpret_cast<std::uintptr_t>(to.data) % kLineBytes == 0 && to.stride_bytes % kLineBytes == 0 &&
         to.row_bytes % kLineBytes == 0;
}

Stores choose_gather_stores(Rows out) {
  const bool large = outgrows_cache(out.rows * out.row_bytes);
  return large && out.row_bytes >= kStreamedGatherBytes ? Stores::streaming : Stores::cached;
}

/// A streamed line is not read before it is written, which halves the traffic of a scatter: it pays from one
/// line on.
Stores choose_scatter_stores(Rows table, std::int64_t count) {
  const bool large = outgrows_cache(count * table.row_bytes);
  const bool pays = is_whole_lines(table) || table.row_bytes >= kStreamedRaggedBytes;
  return large && pays ? Stores::streaming : Stores::cached;
}

/// Calls `body` at once where all items fit into one grain: the pool costs more than a tiny batch.
void for_ranges(std::int64_t n, std::int64_t grain, ParallelFor parallel_for, RangeBody body) {
  if (n <= grain) return body(0, n);
  parallel_for(n, grain, body);
}

template <class Index>
[[noreturn]] void throw_first_bad(const Index* index, std::int64_t count, std::int64_t rows) {
  const Index* bad = std::find_if(index, index + count, [rows](Index i) { return i < 0 || i >= rows; });
  throw IndexError(bad - index, *bad, rows);
}

template <class Index>
void check_in_parallel(const Index* index, std::int64_t count, std::int64_t rows, ParallelFor parallel_for) {
  std::atomic<bool> good = true;
  for_ranges(count, kGrainIndices, parallel_for, [&](std::int64_t begin, std::int64_t end) {
    if (!all_inside(index + begin, end - begin, rows)) good.store(false, std::memory_order_relaxed);
  });
  if (!good.load(std::memory_order_relaxed)) throw_first_bad(index, count, rows);
}

template <class Index>
void run_all(const RowMove<Index>& move, std::int64_t count, ParallelFor parallel_for) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / move.row_bytes);
  for_ranges(count, grain, parallel_for,
             [&](std::int64_t begin, std::int64_t end) { run(move, begin, end); });
}

template <class Index>
void gather(ConstRows table, const Index* index, std::int64_t count, Rows out, ParallelFor parallel_for) {
  check_gather_shapes(table, count, out);
  if (count == 0) return;
  check_in_parallel(index, count, table.rows, parallel_for);
  run_all(plan_gather(table, index, out), count, parallel_for);
}

template <class Index>
void scatter(ConstRows values, const Index* index, std::int64_t count, Rows table, ParallelFor parallel_for) {
  check_scatter_shapes(values, count, table);
  if (count == 0) return;
  check_in_parallel(index, count, table.rows, parallel_for);
  run_all(plan_scatter(values, index, table), count, parallel_for);
}

}  // namespace

bool outgrows_cache(std::int64_t bytes) { return bytes > last_level_cache_bytes() / 2; }

template <class Index>
RowMove<Index> plan_gather(ConstRows table, const Index* index, Rows out) {
  RowMove<Index> move{};
  move.from = table.data;
  move.from_stride = table.stride_bytes;
  move.to = out.data;
  move.to_stride = out.stride_bytes;
  move.row_bytes = table.row_bytes;
  move.index = index;
  move.direction = Direction::gather;
  move.stores = choose_gather_stores(out);
  move.prefetch_rows = prefetch_distance(table.row_bytes);
  return move;
}

template <class Index>
RowMove<Index> plan_scatter(ConstRows values, const Index* index, Rows table) {
  RowMove<Index> move{};
  move.from = values.data;
  move.from_stride = values.stride_bytes;
  move.to = table.data;
  move.to_stride = table.stride_bytes;
  move.row_bytes = table.row_bytes;
  move.index = index;
  move.direction = Direction::scatter;
  move.stores = choose_scatter_stores(table, values.rows);
  // A streamed row is not read first, so fetching it would only cost bandwidth.
  move.prefetch_rows = move.stores == Stores::streaming ? 0 : prefetch_distance(table.row_bytes);
  return move;
}

template RowMove<std::int32_t> plan_gather(ConstRows, const std::int32_t*, Rows);
template RowMove<std::int64_t> plan_gather(ConstRows, const std::int64_t*, Rows);
template RowMove<std::int32_t> plan_scatter(ConstRows, const std::int32_t*, Rows);
template RowMove<std::int64_t> plan_scatter(ConstRows, const std::int64_t*, Rows);

void gather_rows(ConstRows table, const std::int32_t* index, std::int64_t count, Rows out,
                 ParallelFor parallel_for) {
  gather(table, index, count, out, parallel_for);
}

void gather_rows(ConstRows table, const std::int64_t* index, std::int64_t count, Rows out,
                 ParallelFor parallel_for) {
  gather(table, index, count, out, parallel_for);
}

void scatter_rows(ConstRows values, const std::int32_t* index, std::int64_t count, Rows table,
                  ParallelFor parallel_for) {
  scatter(values, index, count, table, parallel_for);
}

void scatter_rows(ConstRows values, const std::int64_t* index, std::int64_t count, Rows table,
                  ParallelFor parallel_for) {
  scatter(values, index, count, table, parallel_for);
}

void check_indices(const std::int32_t* index, std::int64_t count, std::int64_t rows) {
  if (!all_inside(index, count, rows)) throw_first_bad(index, count, rows);
}

void check_indices(const std::int64_t* index, std::int64_t count, std::int64_t rows) {
  if (!all_inside(index, count, rows)) throw_first_bad(index, count, rows);
}

void stream_copy(std::byte* to, const std::byte* from, std::int64_t bytes, ParallelFor parallel_for) {
  if (bytes < 0) throw ShapeError("a copy of " + std::to_string(bytes) + " bytes: the count is negative");
  if (!outgrows_cache(bytes)) {
    return for_ranges(bytes, kGrainBytes, parallel_for, [&](std::int64_t begin, std::int64_t end) {
      std::copy(from + begin, from + end, to + begin);
    });
  }
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kLineBytes);
  const std::int64_t head = (kLineBytes - misaligned) % kLineBytes;
  const std::int64_t lines = (bytes - head) / kLineBytes;
  const std::int64_t done = head + lines * kLineBytes;
  std::copy(from, from + head, to);
  for_ranges(lines, kGrainBytes / kLineBytes, parallel_for, [&](std::int64_t begin, std::int64_t end) {
    stream_lines(to + head + begin * kLineBytes, from + head + begin * kLineBytes, end - begin);
  });
  std::copy(from + done, from + bytes, to + done);
}

}  // namespace speedtorch::kernels
