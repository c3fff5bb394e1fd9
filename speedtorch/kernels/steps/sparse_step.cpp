// The fused pass over the distinct rows, compiled once per instruction set of Highway's and chosen at run
// time. Plain loops over a row's elements call the update's body and the compiler vectorises them for each
// set. This file's compile options (CMakeLists.txt) allow that, and forbid contraction beyond what the body
// fuses.

#include "speedtorch/kernels/steps/sparse_step.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "speedtorch/kernels/rows/row_moves.h"
#include "speedtorch/kernels/steps/step_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "speedtorch/kernels/steps/sparse_step.cpp"
#include <hwy/foreach_target.h>  // includes this file again for each further target
#include <hwy/highway.h>

#include "speedtorch/kernels/rows/row_copies-inl.h"

#ifndef SPEEDTORCH_KERNELS_STEP_TASK
#define SPEEDTORCH_KERNELS_STEP_TASK
namespace speedtorch::kernels {

/// A step with checked operands, for any ranges of the distinct rows.
template <class T>
struct StepTask {
  const AnyUpdate<T>* update;
  StepTables<T> tables;
  const T* grad;
  const DuplicateRows* duplicates;
  RowSteps steps;
};

/// A step of all elements.
template <class T>
struct WholeTask {
  const AnyUpdate<T>* update;
  StepTables<T> tables;
  const T* grad;
  std::int64_t step;
};

using AnyTask = std::variant<const StepTask<float>*, const StepTask<double>*, const WholeTask<float>*,
                             const WholeTask<double>*>;

/// The prefetch distances: of the tables in rows, of the gradients in positions.
constexpr std::int64_t kRowsAhead = 4;
constexpr std::int64_t kGradientsAhead = 8;

/// Elements of a row whose repetitions are summed at a time, on the stack.
constexpr std::int64_t kBlock = 512;

}  // namespace speedtorch::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace speedtorch::kernels {
namespace HWY_NAMESPACE {

using Math = StepMath<SPEEDTORCH_FUSES_HERE>;

/// Prefetches a row, or the first lines of a long one.
template <class T>
HWY_INLINE void prefetch_row(const T* row, std::int64_t columns) {
  const auto first = reinterpret_cast<std::uintptr_t>(row) / kLine;
  const auto last = (reinterpret_cast<std::uintptr_t>(row + columns) - 1) / kLine;
  const std::size_t lines = std::min(last - first + 1, kUnrolledLines);
  for (std::size_t k = 0; k < lines; ++k)
    prefetch_line<PrefetchTo::l1>(reinterpret_cast<const void*>((first + k) * kLine));
}

template <class T>
HWY_INLINE void add_row(T* sum, const T* row, std::int64_t columns) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < columns; ++j) sum[j] += row[j];
}

/// Updates `columns` elements of a row of the parameter (tables[0]) and of each state.
template <class Update, class T, std::size_t... kState>
HWY_NOINLINE void update_columns(const Update& update, const typename Update::Now& now, T* const* tables,
                                 const T* grad, std::int64_t columns, std::index_sequence<kState...>) {
  const Update of_all = update;  // copies, which stores cannot alias
  const typename Update::Now of_row = now;
  T* const param = tables[0];
  T* const states[] = {tables[kState + 1]..., nullptr};
#pragma GCC ivdep
  for (std::int64_t j = 0; j < columns; ++j) {
    T state[] = {states[kState][j]..., T(0)};
    T value = param[j];
    of_all.template apply<Math>(of_row, value, grad[j], state);
    param[j] = value;
    ((states[kState][j] = state[kState]), ...);
  }
}

/// The values that depend on the step: one set for all rows, or one per count of a row. Caches those of
/// recent counts, because powers cost 0.1 us.
template <class Update>
class Nows {
 public:
  using Now = typename Update::Now;

  Nows(const Update& update, const RowSteps& rows)
      : update_(update), rows_(rows), shared_(update.at(rows.shared)) {
    for (auto& known : steps_) known = 0;
  }

  HWY_INLINE const Now& of(std::int64_t row) {
    if (!rows_.counted()) return shared_;
    const std::int64_t step = rows_.wide != nullptr ? ++rows_.wide[row] : ++rows_.narrow[row];
    const auto slot = static_cast<std::size_t>(step) % kSlots;
    if (steps_[slot] != step) {
      steps_[slot] = step;
      known_[slot] = update_.at(step);
    }
    return known_[slot];
  }

 private:
  static constexpr std::size_t kSlots = 1024;
  const Update& update_;
  const RowSteps rows_;
  const Now shared_;
  std::int64_t steps_[kSlots];
  Now known_[kSlots];
};

template <class T, class Update>
class Pass {
 public:
  Pass(const StepTask<T>& task, const Update& update)
      : update_(update),
        tables_(task.tables),
        grad_(task.grad),
        rows_(task.duplicates->rows().data()),
        begins_(task.duplicates->begins().data()),
        positions_(task.duplicates->positions().data()) {}

  HWY_INLINE void prefetch_tables(std::int64_t k) const {
    const std::int64_t at = rows_[k] * tables_.columns;
    prefetch_row(tables_.param + at, tables_.columns);
    for (std::size_t s = 0; s < Update::kStates; ++s) prefetch_row(tables_.states[s] + at, tables_.columns);
  }

  HWY_INLINE void prefetch_gradient(std::int64_t position, std::int64_t end) const {
    if (position < end) prefetch_row(gradient(position), tables_.columns);
  }

  /// Updates the k-th of the distinct rows; prefetches gradients up to place `end`.
  HWY_INLINE void row(std::int64_t k, const typename Update::Now& now, std::int64_t end) const {
    const std::int64_t first = begins_[k];
    const std::int64_t last = begins_[k + 1];
    if (last - first == 1) {
      prefetch_gradient(first + kGradientsAhead, end);
      return update(k, now, gradient(first), 0, tables_.columns);
    }
    HWY_ALIGN T sum[kBlock];
    for (std::int64_t at = 0; at < tables_.columns; at += kBlock) {
      const std::int64_t columns = std::min(kBlock, tables_.columns - at);
      std::copy_n(gradient(first) + at, columns, sum);
      if (at == 0) prefetch_gradient(first + kGradientsAhead, end);
      for (std::int64_t i = first + 1; i < last; ++i) {
        if (at == 0) prefetch_gradient(i + kGradientsAhead, end);
        add_row(sum, gradient(i) + at, columns);
      }
      update(k, now, sum, at, columns);
    }
  }

  HWY_INLINE std::int64_t row_number(std::int64_t k) const { return rows_[k]; }
  HWY_INLINE std::int64_t place(std::int64_t k) const { return begins_[k]; }

 private:
  HWY_INLINE const T* gradient(std::int64_t place) const {
    return grad_ + positions_[place] * tables_.columns;
  }

  HWY_INLINE void update(std::int64_t k, const typename Update::Now& now, const T* grad, std::int64_t from,
                         std::int64_t columns) const {
    const std::int64_t at = rows_[k] * tables_.columns + from;
    T* rows[1 + kMostStates] = {tables_.param + at};
    for (std::size_t s = 0; s < Update::kStates; ++s) rows[s + 1] = tables_.states[s] + at;
    update_columns(update_, now, rows, grad, columns, std::make_index_sequence<Update::kStates>());
  }

  const Update& update_;
  const StepTables<T> tables_;
  const T* grad_;
  const std::int64_t* rows_;
  const std::int64_t* begins_;
  const std::int64_t* positions_;
};

template <class T, class Update>
void update_rows(const StepTask<T>& task, const Update& update, std::int64_t begin, std::int64_t end) {
  const Pass<T, Update> pass(task, update);
  Nows<Update> nows(update, task.steps);
  const std::int64_t last_place = pass.place(end);
  for (std::int64_t k = begin; k < std::min(begin + kRowsAhead, end); ++k) pass.prefetch_tables(k);
  for (std::int64_t i = 0; i < kGradientsAhead; ++i)
    pass.prefetch_gradient(pass.place(begin) + i, last_place);
  for (std::int64_t k = begin; k < end; ++k) {
    if (k + kRowsAhead < end) pass.prefetch_tables(k + kRowsAhead);
    pass.row(k, nows.of(pass.row_number(k)), last_place);
  }
}

/// Updates the distinct rows [begin, end).
template <class T>
void update_some(const StepTask<T>& task, std::int64_t begin, std::int64_t end) {
  std::visit([&](const auto& update) { update_rows(task, update, begin, end); }, *task.update);
}

/// Updates the elements [begin, end).
template <class T>
void update_some(const WholeTask<T>& task, std::int64_t begin, std::int64_t end) {
  std::visit(
      [&](const auto& update) {
        using Update = std::decay_t<decltype(update)>;
        T* tables[1 + kMostStates] = {task.tables.param + begin};
        for (std::size_t s = 0; s < Update::kStates; ++s) tables[s + 1] = task.tables.states[s] + begin;
        update_columns(update, update.at(task.step), tables, task.grad + begin, end - begin,
                       std::make_index_sequence<Update::kStates>());
      },
      *task.update);
}

void UpdateSome(const AnyTask& any, std::int64_t begin, std::int64_t end) {
  std::visit([&](const auto* task) { update_some(*task, begin, end); }, any);
}

}  // namespace HWY_NAMESPACE
}  // namespace speedtorch::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace speedtorch::kernels {
namespace {

HWY_EXPORT(UpdateSome);
template <class Task>
void update(const Task& task, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(UpdateSome)(&task, begin, end);
}

template <class T>
std::int64_t states_of(const AnyUpdate<T>& update) {
  return std::visit([](const auto& one) { return static_cast<std::int64_t>(one.kStates); }, update);
}

/// As in rows.cpp: with less memory to touch, waking a second thread does not pay.
constexpr std::int64_t kGrainBytes = 192 << 10;

/// Divides the distinct rows among threads by cost, in rows of memory: each table's row is read and written,
/// each gradient read. Divided by number, the thread with the most frequent rows would finish last by far.
template <class T>
void for_shares(const DuplicateRows& duplicates, const StepTask<T>& task, std::int64_t tables,
                ParallelFor parallel_for) {
  const auto begins = duplicates.begins();
  const auto first_from = [&](std::int64_t cost) {
    std::int64_t low = 0;
    std::int64_t high = duplicates.unique();
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (2 * tables * middle + begins[static_cast<std::size_t>(middle)] < cost)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  const std::int64_t total = 2 * tables * duplicates.unique() + begins.back();
  const std::int64_t row_bytes = task.tables.columns * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t grain = kGrainBytes / std::clamp<std::int64_t>(row_bytes, 1, kGrainBytes);
  if (total <= grain) return update(task, 0, duplicates.unique());
  parallel_for(total, grain, [&](std::int64_t from, std::int64_t to) {
    const std::int64_t begin = first_from(from);
    const std::int64_t end = first_from(to);
    if (begin < end) update(task, begin, end);
  });
}

}  // namespace

template <class T>
template <IndexType Index>
void SparseStep<T>::run(const Index* index, std::int64_t count, const T* grad, const RowSteps& steps,
                        ParallelFor parallel_for) {
  duplicates_.find(index, count, tables_.rows, parallel_for);
  if (duplicates_.unique() == 0) return;
  const StepTask<T> task{&update_, tables_, grad, &duplicates_, steps};
  for_shares(duplicates_, task, 1 + states_of(update_), parallel_for);
}

template <class T>
void update_all(const AnyUpdate<T>& any, const StepTables<T>& tables, const T* grad, std::int64_t step,
                ParallelFor parallel_for) {
  const WholeTask<T> task{&any, tables, grad, step};
  const auto element_bytes = static_cast<std::int64_t>(sizeof(T)) * (2 * states_of(any) + 3);
  const std::int64_t count = tables.rows * tables.columns;
  const std::int64_t grain = kGrainBytes / element_bytes;
  if (count <= grain) return update(task, 0, count);
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) { update(task, begin, end); });
}

template void update_all(const AnyUpdate<float>&, const StepTables<float>&, const float*, std::int64_t,
                         ParallelFor);
template void update_all(const AnyUpdate<double>&, const StepTables<double>&, const double*, std::int64_t,
                         ParallelFor);

template class SparseStep<float>;
template class SparseStep<double>;

#define SPEEDTORCH_RUN(T, Index) \
  template void SparseStep<T>::run(const Index*, std::int64_t, const T*, const RowSteps&, ParallelFor);
SPEEDTORCH_RUN(float, std::int32_t)
SPEEDTORCH_RUN(float, std::int64_t)
SPEEDTORCH_RUN(double, std::int32_t)
SPEEDTORCH_RUN(double, std::int64_t)
#undef SPEEDTORCH_RUN

}  // namespace speedtorch::kernels
#endif  // HWY_ONCE
