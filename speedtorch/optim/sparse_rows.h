/// An optimizer of the rows of a table that were used: parameter and states updated in place where they lie.
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

/// The optimizer of one table. A step takes the rows that were used and a gradient for each use, adds up the
/// gradients of each row, and updates the row and its states in one pass on LibTorch's threads, without
/// copying them anywhere. Where rows are used once, a step is that of Python torch's optimizer of the same
/// name on those rows alone; docs/updates.md says what is equal bit for bit.
///
/// The table and its states are contiguous float32 or float64 tensors of one shape, of at least one
/// dimension, all on the CPU or on one GPU: `libtorch`, `pageable`, `hugepage`, `mapped` or `pinned` memory
/// as a CPU tensor (Table::host_tensor), `device` memory or the zero-copy alias of `pinned` as a CUDA tensor
/// (Table::tensor). On a GPU a step is queued on the current stream and waits for nothing; bad indices are
/// left out and told by check_index_errors() (speedtorch/rows/rows.h); its workspace serves one stream. Not
/// yet run on a GPU. Not for use by several threads at once.
class SparseRows {
 public:
  /// With new state tables in `states`, set as torch begins: to zero, Adagrad's to its initial value, Rprop's
  /// step sizes to the rate. `libtorch` homes them in LibTorch's own memory; a `mapped` home that has a name
  /// is a new folder of one `.npy` file for each (`exp_avg.npy`, and of counts by row `row_steps.npy`).
  /// @throws OptionError for a number that the optimizer cannot have; PlacementError for a home that the
  /// table's device does not reach, or counts by row on a GPU; ShapeError for a table that is not as above;
  /// what Table throws. No file is left then.
  SparseRows(at::Tensor table, const UpdateOptions& options,
             const TableOptions& states = default_table_options(), StepCount count = StepCount::shared);

  /// With given states, in the order of state_names(): those of a run that is resumed, or of any placement.
  /// `row_steps`, where it is defined, counts each row's own steps: int32 or int64, one for each row, which
  /// must stay within the dtype.
  /// @throws ShapeError naming both shapes where one is not as the table; LazyTensorError; as above.
  SparseRows(at::Tensor table, const UpdateOptions& options, std::vector<at::Tensor> states,
             at::Tensor row_steps = {});

  ~SparseRows();
  SparseRows(SparseRows&&) noexcept;
  SparseRows& operator=(SparseRows&&) noexcept;

  /// A step of the rows that `index` (int32 or int64, contiguous, n elements in any shape) names, by `grad`,
  /// contiguous, of n rows of the table's shape and dtype: grad[i, ...] is for row index[i]. Gradients of one
  /// row are added up in the order that they come in; the result does not depend on the threads. An empty
  /// index is a step of no rows. Bumps the version counters of what it writes.
  /// @throws ShapeError naming both shapes, PlacementError naming both devices, IndexError; nothing was
  /// written then.
  void step(const at::Tensor& index, const at::Tensor& grad);

  [[nodiscard]] const at::Tensor& table() const { return table_; }
  /// To save, or to look at. The tables are what the next step reads.
  [[nodiscard]] std::vector<State> states() const;
  /// How many steps were done; with counts by row they are not asked.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Of a run that is resumed. @throws OptionError for a negative number
  void set_steps(std::int64_t steps);
  /// Other numbers from the next step on, as a schedule of the learning rate has them.
  /// @throws OptionError for numbers that the optimizer cannot have, or for another optimizer or other states
  void set_options(const UpdateOptions& options);
  /// Each row's count; undefined for a shared one.
  [[nodiscard]] const at::Tensor& row_steps() const { return row_steps_; }

 private:
  class Steps;  // of one dtype

  void make_states(const UpdateOptions& options, const TableOptions& home, StepCount count);
  void prepare(const UpdateOptions& options);

  at::Tensor table_;
  std::vector<at::Tensor> states_;
  at::Tensor row_steps_;
  std::int64_t steps_ = 0;
  UpdateOptions options_;
  std::vector<std::string> names_;
  std::unique_ptr<Steps> run_;
};

}  // namespace speedtorch
