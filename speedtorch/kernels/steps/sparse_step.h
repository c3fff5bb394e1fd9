/// One optimizer step on the rows of an index: one pass sums the gradients of repeated rows and updates
/// parameter and states in place. Other rows stay as they are. Also a step of all rows.
#pragma once

#include <cstdint>

#include "speedtorch/kernels/index_type.h"
#include "speedtorch/kernels/parallel.h"
#include "speedtorch/kernels/rows/duplicate_rows.h"
#include "speedtorch/kernels/steps/step_tables.h"
#include "speedtorch/kernels/steps/updates.h"

namespace speedtorch::kernels {

/// The number of updates of each row, in one of two widths; both null if all rows share one count: then
/// `shared` is the step.
struct RowSteps {
  /// Step `number` (from 1) of all rows.
  RowSteps(std::int64_t number) : shared(number) {}
  RowSteps(std::int32_t* narrow_, std::int64_t* wide_) : narrow(narrow_), wide(wide_) {}

  std::int64_t shared = 1;
  std::int32_t* narrow = nullptr;
  std::int64_t* wide = nullptr;

  [[nodiscard]] bool counted() const { return narrow != nullptr || wide != nullptr; }
};

/// Keeps buffers between steps. A step allocates nothing once it saw an index of that length.
template <class T>
class SparseStep {
 public:
  /// @param tables of at least one column
  SparseStep(const AnyUpdate<T>& update, const StepTables<T>& tables) : update_(update), tables_(tables) {}

  /// Used from the next step on. The tables may have another shape.
  void set_update(const AnyUpdate<T>& update) { update_ = update; }
  void set_tables(const StepTables<T>& tables) { tables_ = tables; }

  /// A step of the rows index[0] to index[count - 1], by `count` contiguous gradient rows. Gradients of one
  /// row are added in the order of their positions, so the result does not depend on the number of threads.
  /// If each row counts its own steps, the bias of a row's first gradients is corrected however late they
  /// come.
  /// @throws IndexError before anything is written
  template <IndexType Index>
  void run(const Index* index, std::int64_t count, const T* grad, const RowSteps& steps,
           ParallelFor parallel_for);

  /// The rows of the last run, for counting or logging.
  [[nodiscard]] const DuplicateRows& duplicates() const { return duplicates_; }

 private:
  AnyUpdate<T> update_;
  StepTables<T> tables_;
  DuplicateRows duplicates_;
};

/// Step `step` (from 1) of every element of the tables, by a gradient per element.
template <class T>
void update_all(const AnyUpdate<T>& update, const StepTables<T>& tables, const T* grad, std::int64_t step,
                ParallelFor parallel_for);

}  // namespace speedtorch::kernels
