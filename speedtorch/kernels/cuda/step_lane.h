/// The fused sparse step on a GPU, one thread at a time, so that tests run it on the host: the work before
/// and after CUB's sort of the index, and a lane's part of a row. C++17, no CUDA header.
///
///   key_index: keys; counts invalid indices   ->  sort (stable, so copies keep their order)
///   mark_key, and an inclusive sum            ->  place_key: where each row's copies begin
///   fold_lane: sums of 64 copies each, for rows with that many
///   step_lane: sums the gradients of each distinct row, updates parameter and states
#pragma once

#include <cstdint>

#include "speedtorch/kernels/cuda/fused_math.h"
#include "speedtorch/kernels/cuda/lane.h"
#include "speedtorch/kernels/index_errors.h"
#include "speedtorch/kernels/steps/step_tables.h"

namespace speedtorch::kernels {

/// A sorted index of `count` entries and what is computed from it.
struct StepKeys {
  std::int64_t* keys =
      nullptr;  ///< row numbers; for invalid indices the number of rows, so that they come last
  std::int32_t* positions = nullptr;  ///< the original position of each
  std::int32_t* numbers = nullptr;    ///< after mark_key and an inclusive sum: the number of its row, from 1
  std::int32_t* begins = nullptr;    ///< count + 1: row k's copies are entries begins[k] to begins[k + 1] - 1
  std::int32_t* distinct = nullptr;  ///< the number of rows; all invalid indices count as one
};

/// Sets the key of entry i of the index. `errors` may be null.
template <class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline void key_index(const StepKeys& keys, const Index* index, std::int64_t i,
                                             std::int64_t rows, IndexErrors* errors, Memory& memory) {
  const std::int64_t row = index[i];
  const bool names_a_row = static_cast<std::uint64_t>(row) < static_cast<std::uint64_t>(rows);
  keys.keys[i] = names_a_row ? row : rows;
  keys.positions[i] = static_cast<std::int32_t>(i);
  if (!names_a_row && errors != nullptr) memory.bad_index(errors, i, row, rows);
}

SPEEDTORCH_HOST_DEVICE inline bool begins_key(const StepKeys& keys, std::int64_t i) {
  return i == 0 || keys.keys[i] != keys.keys[i - 1];
}

/// numbers[i] = 1 if a row's copies begin there, else 0.
SPEEDTORCH_HOST_DEVICE inline void mark_key(const StepKeys& keys, std::int64_t i) {
  keys.numbers[i] = begins_key(keys, i) ? 1 : 0;
}

SPEEDTORCH_HOST_DEVICE inline void place_key(const StepKeys& keys, std::int64_t i, std::int64_t count) {
  if (begins_key(keys, i)) keys.begins[keys.numbers[i] - 1] = static_cast<std::int32_t>(i);
  if (i < count - 1) return;
  keys.begins[keys.numbers[i]] = static_cast<std::int32_t>(count);
  *keys.distinct = keys.numbers[i];
}

/// The copies of a row that one group of threads adds. A row of c copies then takes 64 and c / 64 additions
/// in turn instead of c. (The most frequent row of 131,072 draws of Zipf 1.05 has about 12,000.)
constexpr std::int32_t kFoldedCopies = 64;

/// A step with its plan: the argument of the kernel.
template <class T>
struct LaneStep {
  StepTables<T> tables;
  const T* grad;
  StepKeys keys;
  T* folds;       ///< a row per kFoldedCopies entries of the index, for fold_lane's sums
  int lane_bits;  ///< 2^lane_bits threads share a row
};

/// Threads per row: as many as it has elements, up to a warp.
inline int step_lane_bits(std::int64_t columns) {
  int bits = 0;
  while (bits < 5 && (std::int64_t{1} << bits) < columns) ++bits;
  return bits;
}

/// Updates element `at` of the tables.
template <class Update, class T>
SPEEDTORCH_HOST_DEVICE inline void update_element(const StepTables<T>& tables, const Update& update,
                                                  const typename Update::Now& now, T grad, std::int64_t at) {
  constexpr int kStates = static_cast<int>(Update::kStates);
  T state[kMostStates + 1] = {};
  for (int s = 0; s < kStates; ++s) state[s] = tables.states[s][at];
  T value = tables.param[at];
  update.template apply<FusedMath>(now, value, grad, state);
  tables.param[at] = value;
  for (int s = 0; s < kStates; ++s) tables.states[s][at] = state[s];
}

/// Adds to `sum` the gradients of copies `first` to `last` - 1 at one column, in this order. Several loads
/// are in flight: each waits for its position, and the sum for all.
template <class T>
SPEEDTORCH_HOST_DEVICE inline T add_copies(const LaneStep<T>& step, T sum, std::int32_t first,
                                           std::int32_t last, std::int64_t column) {
  const std::int64_t columns = step.tables.columns;
  std::int32_t i = first;
  for (; i + kItemsInFlight <= last; i += kItemsInFlight) {
    std::int32_t positions[kItemsInFlight];
    T copies[kItemsInFlight];
    for (int k = 0; k < kItemsInFlight; ++k) positions[k] = step.keys.positions[i + k];
    for (int k = 0; k < kItemsInFlight; ++k) copies[k] = step.grad[positions[k] * columns + column];
    for (int k = 0; k < kItemsInFlight; ++k) sum += copies[k];
  }
  for (; i < last; ++i) sum += step.grad[step.keys.positions[i] * columns + column];
  return sum;
}

template <class T>
SPEEDTORCH_HOST_DEVICE inline T sum_of_copies(const LaneStep<T>& step, std::int32_t first, std::int32_t last,
                                              std::int64_t column) {
  const T one = step.grad[step.keys.positions[first] * step.tables.columns + column];
  return add_copies(step, one, first + 1, last, column);
}

/// The first of the kFoldedCopies copies whose sum is row `fold` of LaneStep::folds; -1 if there are none.
/// Set j of the row whose copies begin at entry b is fold b / 64 + j. No two sets share a fold, because the
/// next row begins at least 64 entries behind each set's begin.
template <class T>
SPEEDTORCH_HOST_DEVICE inline std::int32_t begin_of_fold(const LaneStep<T>& step, std::int64_t fold) {
  const StepKeys& keys = step.keys;
  for (std::int32_t entry = 0; entry < kFoldedCopies; entry += kFoldedCopies - 1) {
    const std::int32_t k = keys.numbers[fold * kFoldedCopies + entry] - 1;
    const std::int32_t begin = keys.begins[k];
    const auto set = static_cast<std::int32_t>(fold) - begin / kFoldedCopies;
    if (set < (keys.begins[k + 1] - begin) / kFoldedCopies && keys.keys[begin] != step.tables.rows)
      return begin + set * kFoldedCopies;
  }
  return -1;
}

/// Sums one thread's elements of every fold of its group. Runs before step_lane.
template <class T>
SPEEDTORCH_HOST_DEVICE inline void fold_lane(const LaneStep<T>& step, std::int64_t count, std::int64_t thread,
                                             std::int64_t threads) {
  const std::int64_t lanes = std::int64_t{1} << step.lane_bits;
  const std::int64_t columns = step.tables.columns;
  for (std::int64_t fold = thread >> step.lane_bits; fold < count / kFoldedCopies;
       fold += threads >> step.lane_bits) {
    const std::int32_t first = begin_of_fold(step, fold);
    if (first < 0) continue;
    for (std::int64_t column = thread & (lanes - 1); column < columns; column += lanes)
      step.folds[fold * columns + column] = sum_of_copies(step, first, first + kFoldedCopies, column);
  }
}

/// The summed gradients of a row's copies at one column: first whole sets of kFoldedCopies from fold_lane, in
/// their order, then the other copies in the order of their positions.
template <class T>
SPEEDTORCH_HOST_DEVICE inline T summed_grad(const LaneStep<T>& step, std::int32_t first, std::int32_t last,
                                            std::int64_t column) {
  const std::int32_t sets = (last - first) / kFoldedCopies;
  if (sets == 0) return sum_of_copies(step, first, last, column);
  const std::int64_t columns = step.tables.columns;
  const T* const folds = step.folds + first / kFoldedCopies * columns + column;
  T sum = folds[0];
  std::int32_t set = 1;
  for (; set + kItemsInFlight <= sets; set += kItemsInFlight) {
    T some[kItemsInFlight];
    for (int k = 0; k < kItemsInFlight; ++k) some[k] = folds[(set + k) * columns];
    for (int k = 0; k < kItemsInFlight; ++k) sum += some[k];
  }
  for (; set < sets; ++set) sum += folds[set * columns];
  return add_copies(step, sum, first + sets * kFoldedCopies, last, column);
}

/// Steps one thread's elements of every row of its group. Leaves out invalid indices.
template <class Update, class T>
SPEEDTORCH_HOST_DEVICE inline void step_lane(const LaneStep<T>& step, const Update& update,
                                             const typename Update::Now& now, std::int64_t thread,
                                             std::int64_t threads) {
  const std::int64_t lanes = std::int64_t{1} << step.lane_bits;
  const std::int64_t distinct = *step.keys.distinct;
  for (std::int64_t k = thread >> step.lane_bits; k < distinct; k += threads >> step.lane_bits) {
    const std::int32_t first = step.keys.begins[k];
    const std::int64_t row = step.keys.keys[first];
    if (row == step.tables.rows) continue;
    const std::int32_t last = step.keys.begins[k + 1];
    for (std::int64_t column = thread & (lanes - 1); column < step.tables.columns; column += lanes)
      update_element(step.tables, update, now, summed_grad(step, first, last, column),
                     row * step.tables.columns + column);
  }
}

/// One thread's part of a step of all elements.
template <class Update, class T>
SPEEDTORCH_HOST_DEVICE inline void update_all_lane(const StepTables<T>& tables, const T* grad,
                                                   const Update& update, const typename Update::Now& now,
                                                   std::int64_t thread, std::int64_t threads) {
  const std::int64_t count = tables.rows * tables.columns;
  for (std::int64_t at = thread; at < count; at += threads) update_element(tables, update, now, grad[at], at);
}

}  // namespace speedtorch::kernels
