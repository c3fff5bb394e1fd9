// What a movement of these operands does by the plan in use: stores and prefetch. The figures behind the
// choices are in docs/kernels.md.

#include <algorithm>

#include "speedtorch/kernels/rows/plan.h"
#include "speedtorch/kernels/rows/row_moves.h"

namespace speedtorch::kernels {
namespace {

/// The same number of lines ahead for every width.
std::int64_t rows_ahead(const RowChoice& choice, std::int64_t row_bytes) {
  auto lines = (row_bytes + kLineBytes - 1) / kLineBytes;
  constexpr auto kMost = static_cast<std::int64_t>(kUnrolledLines);
  const std::int64_t step = choice.line_step;
  if (lines > kMost && step > 0) lines = std::min((lines + step - 1) / step, kMost);
  return std::max<std::int64_t>(1, choice.lines_ahead / lines);
}

bool is_whole_lines(Rows to) {
  return reinterpret_cast<std::uintptr_t>(to.data) % kLineBytes == 0 && to.stride_bytes % kLineBytes == 0 &&
         to.row_bytes % kLineBytes == 0;
}

/// Rows that cannot be staged because of the gaps between them are streamed from the width on from which no
/// row is staged.
Stores stores_of(const RowChoice& choice, Rows to) {
  if (choice.stores != Stores::staged) return choice.stores;
  if (to.row_bytes > kStagedRowBytes) return Stores::streaming;
  return to.stride_bytes == to.row_bytes ? Stores::staged : Stores::cached;
}

/// The choice for writing `moved_rows` of the rows of `to`.
const RowChoice& choose(const DirectionPlan& plan, Rows to, std::int64_t moved_rows) {
  const auto& choices = moved_rows * to.row_bytes < plan.large_from ? plan.small
                        : is_whole_lines(to)                        ? plan.whole_lines
                                                                    : plan.cut_lines;
  return choices[width_class(to.row_bytes)];
}

template <IndexType Index>
RowMove<Index> move_of(ConstRows from, const Index* index, Rows to, Direction direction,
                       const RowChoice& choice) {
  RowMove<Index> move{};
  move.from = from.data;
  move.from_stride = from.stride_bytes;
  move.to = to.data;
  move.to_stride = to.stride_bytes;
  move.row_bytes = from.row_bytes;
  move.index = index;
  move.direction = direction;
  move.stores = stores_of(choice, to);
  move.prefetch_to = choice.prefetch_to;
  move.prefetch_rows = rows_ahead(choice, from.row_bytes);
  move.line_step = choice.line_step;
  move.touch_rows = choice.touch > 1 ? choice.touch * move.prefetch_rows : 0;
  return move;
}

}  // namespace

template <IndexType Index>
RowMove<Index> plan_gather(ConstRows table, const Index* index, Rows out, const Plan& plan) {
  return move_of(table, index, out, Direction::gather, choose(plan.gather, out, out.rows));
}

template <IndexType Index>
RowMove<Index> plan_scatter(ConstRows values, const Index* index, Rows table, const Plan& plan) {
  // A table smaller than its values, which come again and again, stays in the cache.
  const auto written = std::min(values.rows, table.rows);
  const auto& choice = choose(plan.scatter, table, written);
  auto move = move_of(values, index, table, Direction::scatter, choice);
  const bool reads_nothing = move.stores == Stores::streaming && is_whole_lines(table);
  if (reads_nothing) move.prefetch_rows = move.touch_rows = 0;
  return move;
}

RowMove<std::int64_t> plan_placed(ConstRows table, const std::int64_t* index, Rows out,
                                  const std::int64_t* places, const Plan& plan) {
  // Read as by a gather, written as by a scatter.
  auto move = move_of(table, index, out, Direction::gather, choose(plan.gather, out, out.rows));
  move.stores = stores_of(choose(plan.scatter, out, out.rows), out);
  move.places = places;
  return move;
}

template RowMove<std::int32_t> plan_gather(ConstRows, const std::int32_t*, Rows, const Plan&);
template RowMove<std::int64_t> plan_gather(ConstRows, const std::int64_t*, Rows, const Plan&);
template RowMove<std::int32_t> plan_scatter(ConstRows, const std::int32_t*, Rows, const Plan&);
template RowMove<std::int64_t> plan_scatter(ConstRows, const std::int64_t*, Rows, const Plan&);

}  // namespace speedtorch::kernels
