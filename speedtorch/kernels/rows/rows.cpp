// What the public functions check, and how the work is shared; the choices are in row_plan.cpp, the work in
// row_moves.cpp.

#include "speedtorch/kernels/rows/rows.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "speedtorch/kernels/error.h"
#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"

namespace speedtorch::kernels {
namespace {

/// Indices of the check for which a second thread is woken: 0.1 ns each in the cache.
constexpr std::int64_t kGrainIndices = 16 << 10;

/// Calls `body` at once where all items fit into one grain: the pool costs more than a tiny batch.
void for_ranges(std::int64_t n, std::int64_t grain, ParallelFor parallel_for, RangeBody body) {
  if (n <= grain) return body(0, n);
  parallel_for(n, grain, body);
}

template <IndexType Index>
[[noreturn]] void throw_first_bad(const Index* index, std::int64_t count, std::int64_t rows) {
  const Index* bad = std::find_if(index, index + count, [rows](Index i) { return i < 0 || i >= rows; });
  throw IndexError(bad - index, *bad, rows);
}

/// Checks the indices, then moves.
template <IndexType Index>
void check_and_run(const RowMove<Index>& move, std::int64_t count, std::int64_t rows,
                   ParallelFor parallel_for) {
  const std::int64_t grain = std::max<std::int64_t>(1, plan_in_use().thread_bytes / move.row_bytes);
  // With the movement's grain each thread checks the indices of the rows that it moves next, and has them at
  // hand.
  check_indices(move.index, count, rows, grain, parallel_for);
  for_ranges(count, grain, parallel_for,
             [&](std::int64_t begin, std::int64_t end) { run(move, begin, end); });
}

}  // namespace

template <IndexType Index>
void gather_rows(ConstRows table, const Index* index, std::int64_t count, Rows out,
                 ParallelFor parallel_for) {
  check_gather_shapes(table, count, out);
  if (table.row_bytes == 0) return check_indices(index, count, table.rows);
  if (count > 0) check_and_run(plan_gather(table, index, out), count, table.rows, parallel_for);
}

template <IndexType Index>
void scatter_rows(ConstRows values, const Index* index, std::int64_t count, Rows table,
                  ParallelFor parallel_for) {
  check_scatter_shapes(values, count, table);
  if (table.row_bytes == 0) return check_indices(index, count, table.rows);
  if (count > 0) check_and_run(plan_scatter(values, index, table), count, table.rows, parallel_for);
}

void place_rows(ConstRows table, const std::int64_t* index, const std::int64_t* places, std::int64_t count,
                Rows out, ParallelFor parallel_for) {
  check_gather_shapes(table, out.rows, out);
  check_indices(places, count, out.rows);
  if (table.row_bytes == 0) return check_indices(index, count, table.rows);
  if (count > 0) check_and_run(plan_placed(table, index, out, places), count, table.rows, parallel_for);
}

template <IndexType Index>
void check_indices(const Index* index, std::int64_t count, std::int64_t rows, std::int64_t grain,
                   ParallelFor parallel_for) {
  std::atomic<bool> good = true;
  const auto check = [&](std::int64_t begin, std::int64_t end) {
    if (!all_inside(index + begin, end - begin, rows)) good.store(false, std::memory_order_relaxed);
  };
  if (count <= kGrainIndices) {
    check(0, count);
  } else {
    for_ranges(count, grain, parallel_for, check);
  }
  if (!good.load(std::memory_order_relaxed)) throw_first_bad(index, count, rows);
}

template <IndexType Index>
void check_indices(const Index* index, std::int64_t count, std::int64_t rows) {
  if (!all_inside(index, count, rows)) throw_first_bad(index, count, rows);
}

#define SPEEDTORCH_ROWS(Index)                                                          \
  template void gather_rows(ConstRows, const Index*, std::int64_t, Rows, ParallelFor);  \
  template void scatter_rows(ConstRows, const Index*, std::int64_t, Rows, ParallelFor); \
  template void check_indices(const Index*, std::int64_t, std::int64_t);                \
  template void check_indices(const Index*, std::int64_t, std::int64_t, std::int64_t, ParallelFor);
SPEEDTORCH_ROWS(std::int32_t)
SPEEDTORCH_ROWS(std::int64_t)
#undef SPEEDTORCH_ROWS

void stream_copy(std::byte* to, const std::byte* from, std::int64_t bytes, ParallelFor parallel_for,
                 CopyWay way) {
  if (bytes < 0) throw ShapeError("a copy of " + std::to_string(bytes) + " bytes: the count is negative");
  const Plan& plan = plan_in_use();
  if (bytes < plan.gather.large_from) {
    return for_ranges(bytes, plan.thread_bytes, parallel_for, [&](std::int64_t begin, std::int64_t end) {
      std::copy(from + begin, from + end, to + begin);
    });
  }
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % kLineBytes);
  const std::int64_t head = (kLineBytes - misaligned) % kLineBytes;
  const std::int64_t lines = (bytes - head) / kLineBytes;
  const std::int64_t done = head + lines * kLineBytes;
  std::copy(from, from + head, to);
  const auto grain = std::max<std::int64_t>(1, plan.thread_bytes / kLineBytes);
  for_ranges(lines, grain, parallel_for, [&](std::int64_t begin, std::int64_t end) {
    stream_lines(to + head + begin * kLineBytes, from + head + begin * kLineBytes, end - begin, way);
  });
  std::copy(from + done, from + bytes, to + done);
}

}  // namespace speedtorch::kernels
