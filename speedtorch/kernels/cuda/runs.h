/// The runs of equal indices in a sorted index. A deduplicated gather computes them between CUB's sort, its
/// sum and the movement, one index at a time, so that tests run it on the host. C++17, and no CUDA header.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/cuda/plan.h"
#include "speedtorch/kernels/index_errors.h"

namespace speedtorch::kernels {

/// A sorted index of `count` entries and its runs. Each array but the last has `count` entries.
template <class Index>
struct Runs {
  Index* sorted = nullptr;            ///< the index in the table's order
  std::int32_t* positions = nullptr;  ///< the original position of each
  std::int32_t* numbers = nullptr;    ///< after mark_run and an inclusive sum: the number of its run, from 1
  Index* unique = nullptr;            ///< the row of each run
  std::int32_t* place_of = nullptr;   ///< the run of each index, in the original order
  std::int64_t* unique_count = nullptr;
};

template <class Index>
SPEEDTORCH_HOST_DEVICE inline bool starts_run(const Runs<Index>& runs, std::int64_t i) {
  return i == 0 || runs.sorted[i] != runs.sorted[i - 1];
}

/// numbers[i] = 1 if a run starts there, else 0.
template <class Index>
SPEEDTORCH_HOST_DEVICE inline void mark_run(const Runs<Index>& runs, std::int64_t i) {
  runs.numbers[i] = starts_run(runs, i) ? 1 : 0;
}

/// Maps entry i of the sorted index to its run and stores the run's row. Counts invalid indices here, where
/// their position is known. `errors` may be null.
template <class Index, class Memory>
SPEEDTORCH_HOST_DEVICE inline void place_run(const Runs<Index>& runs, std::int64_t i, std::int64_t count,
                                             std::int64_t rows, IndexErrors* errors, Memory& memory) {
  const std::int32_t run = runs.numbers[i] - 1;
  const Index row = runs.sorted[i];
  runs.place_of[runs.positions[i]] = run;
  if (starts_run(runs, i)) runs.unique[run] = row;
  if (i == count - 1) *runs.unique_count = run + 1;
  if (errors != nullptr && (row < 0 || row >= rows)) memory.bad_index(errors, runs.positions[i], row, rows);
}

}  // namespace speedtorch::kernels
