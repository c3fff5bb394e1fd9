/// Optimizers that update only the rows of a table that were used, in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/kernels/steps/update_options.h"
#include "speedtorch/optim/state.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// The optimizer of one table. A step takes the indices of the used rows and one gradient per index. It sums
/// the gradients of each row and updates the row and its states in one pass on LibTorch's threads, without
/// copies. If each row is used once, the step equals that of Python torch's optimizer of the same name on
/// those rows alone; docs/updates.md says what is equal bit for bit.
///
/// The table and its states are contiguous float32 or float64 tensors of one shape with at least one
/// dimension, all on the CPU or all on one GPU. CPU tensors (Table::host_tensor) may be `libtorch`,
/// `pageable`, `hugepage`, `mapped` or `pinned` memory. CUDA tensors (Table::tensor) may be `device` memory
/// or the zero-copy alias of `pinned` memory.
///
/// On a GPU a step is queued on the current stream and does not wait. It skips bad indices, and
/// check_index_errors() (speedtorch/rows/rows.h) reports them. The workspace serves one stream. Not yet run
/// on a GPU. Not thread-safe.
class SparseRows {
 public:
  /// Creates the states in `states`, with torch's initial values: zero, Adagrad's initial accumulator value,
  /// Rprop's learning rate as step size. `libtorch` places them in LibTorch's own memory. If `states` is
  /// `mapped` and named, creates a folder with one `.npy` file per state (`exp_avg.npy`; `row_steps.npy` if
  /// rows are counted). If it throws, no file is left. @throws OptionError for invalid options;
  /// PlacementError for a placement that the table's device does not reach, or for row counts on a GPU;
  /// ShapeError for a table that is not as described; what Table throws
  SparseRows(at::Tensor table, const UpdateOptions& options,
             const TableOptions& states = default_table_options(), StepCount count = StepCount::shared);

  /// Uses given states, in the order of state_names(): of a resumed run, or in any placement. `row_steps`, if
  /// defined, counts the steps of each row: int32 or int64 [rows]; the counts must stay within the dtype.
  /// @throws ShapeError naming both shapes if one differs from the table; LazyTensorError; as above
  SparseRows(at::Tensor table, const UpdateOptions& options, std::vector<at::Tensor> states,
             at::Tensor row_steps = {});

  ~SparseRows();
  SparseRows(SparseRows&&) noexcept;
  SparseRows& operator=(SparseRows&&) noexcept;

  /// Steps the rows that `index` names. If it throws, nothing was written. Increments the version counters of
  /// the tensors that it writes.
  /// @param index int32 or int64, contiguous, n elements in any shape; may be empty
  /// @param grad contiguous, n rows of the table's row shape and dtype; grad[i] belongs to row index[i].
  /// Gradients of the same row are added in order, so the result does not depend on the threads.
  /// @throws ShapeError naming both shapes; PlacementError naming both devices; IndexError
  void step(const at::Tensor& index, const at::Tensor& grad);

  [[nodiscard]] const at::Tensor& table() const { return table_; }
  /// The states, for saving or inspection. The next step reads the same tables.
  [[nodiscard]] std::vector<State> states() const;
  /// Number of steps done. Unused if rows are counted.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// For a resumed run. @throws OptionError for a negative number
  void set_steps(std::int64_t steps);
  /// Changes the options from the next step on, for learning-rate schedules. @throws OptionError for invalid
  /// options, another optimizer or other states
  void set_options(const UpdateOptions& options);
  /// The count of each row; undefined with StepCount::shared.
  [[nodiscard]] const at::Tensor& row_steps() const { return row_steps_; }

 private:
  class Steps;  // of one dtype

  void make_states(const UpdateOptions& options, const TableOptions& home, StepCount count);
  void prepare(const UpdateOptions& options);
  void check_apart(const at::Tensor& read, const char* name) const;

  at::Tensor table_;
  std::vector<at::Tensor> states_;
  at::Tensor row_steps_;
  std::int64_t steps_ = 0;
  UpdateOptions options_;
  std::vector<std::string> names_;
  std::unique_ptr<Steps> run_;
};

}  // namespace speedtorch
