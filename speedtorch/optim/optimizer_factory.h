/// Swaps optimizer states for the rows of a table that is larger than the model: SpeedTorch's
/// OptimizerFactory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "speedtorch/optim/live_states.h"
#include "speedtorch/optim/state.h"
#include "speedtorch/optim/state_tables.h"
#include "speedtorch/tables/model_factory.h"
#include "speedtorch/tables/table.h"

namespace torch::nn {
class Module;
}

namespace speedtorch {

/// The rows that a weight holds, in its order, if it is filled without a ModelFactory: int32 or int64 [n],
/// distinct. It is a type of its own so that the indices of a batch are not passed by mistake: a ModelFactory
/// holds their distinct rows in ascending order, and states in another order would go to other rows.
class WeightRows {
 public:
  explicit WeightRows(at::Tensor rows) : rows_(std::move(rows)) {}
  [[nodiscard]] const at::Tensor& rows() const { return rows_; }

 private:
  at::Tensor rows_;
};

/// The weight of a model holds the distinct rows of one batch; a table in any placement holds all rows.
/// OptimizerFactory does the same for the optimizer's states: it has one table per state, whose rows it moves
/// into the optimizer before a step and back afterwards.
///
///   speedtorch::OptimizerFactory states(optimizer, embedding->weight, 2'000'000, {.placement = ...});
///   for (...) {
///     vectors.before_forward_pass(batch);   // the ModelFactory of the weight
///     states.before_forward_pass(vectors);
///     ... forward, backward, optimizer.step() ...
///     states.after_optimizer_step();  // or skip_optimizer_step()
///   }
///
/// Supports LibTorch's Adam, AdamW (both with amsgrad), Adagrad, RMSprop (momentum, centered) and SGD
/// (momentum), and all of speedtorch/optim/optimizers.h. No step needs to be done before. A step updates the
/// rows of the batch alone: SGD and Adagrad equal a step of the whole table, and Adam equals SparseAdam
/// (other rows do not move). The count of steps is the optimizer's, one for all rows, or one per row
/// (StepCount::by_row), which LibTorch's optimizers do not support.
///
/// Not thread-safe. The optimizer must outlive the object.
class OptimizerFactory {
 public:
  /// Creates state tables [rows, ...] of the parameter's row shape and dtype, with torch's initial values:
  /// zero, Adagrad's initial accumulator value, Rprop's learning rate as step size. The parameter's own
  /// number of rows does not matter. If the tables are `mapped` and named, creates a folder with one `.npy`
  /// file per table. If it throws, nothing is left in memory or on disk. @throws OptimizerError if the
  /// optimizer does not have the parameter, is not supported, or cannot count by row; PlacementError for row
  /// counts of a parameter on a GPU; ShapeError for a parameter without dimensions; FileError if the folder
  /// exists; what Table throws
  OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, std::int64_t rows,
                   const TableOptions& home = default_table_options(), StepCount count = StepCount::shared);

  /// The same for the model's parameter of this name: "decoder.embedding.weight", or without ".weight".
  /// @throws OptimizerError listing the names if there is none
  OptimizerFactory(torch::optim::Optimizer& optimizer, const torch::nn::Module& model,
                   const std::string& variable, std::int64_t rows,
                   const TableOptions& home = default_table_options(), StepCount count = StepCount::shared);

  /// Uses existing tables, each in its own placement (see plan_memory()), or those of a resumed run
  /// (set_steps()). Order: state_names(), then the row counts if rows are counted. @throws ShapeError if one
  /// is not of the parameter's row shape and dtype, or has another number of rows than the first; FileError
  /// if one is open `read_only`; OptimizerError and PlacementError as above
  OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, std::vector<Table> tables,
                   StepCount count = StepCount::shared);

  /// Moves the states of the weight's rows into the optimizer. Call it after before_forward_pass() of the
  /// ModelFactory. @throws OptimizerError if the ModelFactory is of another parameter; OrderError if its rows
  /// are not in the weight yet; as below
  void before_forward_pass(const ModelFactory& weight);
  /// The same for a weight that is filled by hand. If it throws, the optimizer is unchanged. @throws
  /// IndexError (no bound is known if the optimizer has no states and no tables were given); DuplicateError;
  /// ShapeError for another kind of index; OrderError if the rows of an earlier call were not put back;
  /// OptimizerError if a changed option gives the optimizer other states
  void before_forward_pass(const WeightRows& weight);

  /// Moves the states of the rows of before_forward_pass() back into the tables. @throws OrderError if there
  /// are none; OptimizerError if the optimizer's states are missing or of another shape
  void after_optimizer_step();

  /// The same. @throws OrderError if these rows are not those of before_forward_pass()
  void after_optimizer_step(const at::Tensor& rows);

  /// Drops the states that are in the optimizer, after a forward pass without training.
  void skip_optimizer_step() { rows_.reset(); }

  /// Writes all tables and the count of steps to a new folder: `exp_avg.npy` and so on, `steps.npy`,
  /// `row_steps.npy` if rows are counted, and `optimizer.txt`, which names the optimizer. Atomic. @throws
  /// FileError if the folder exists or cannot be created; OrderError between before_forward_pass() and
  /// after_optimizer_step()
  void save(const std::string& folder) const;

  /// Reads what save() wrote. Further steps equal those of the saved run bit for bit. If it throws, nothing
  /// was changed. @throws FileError and NpyError for missing or damaged files; ShapeError naming both shapes;
  /// OptimizerError if the folder is of another optimizer (LibTorch's and ours of one name are the same), of
  /// other states (amsgrad, momentum), differs in counting by row, or has a negative number of steps;
  /// OrderError between before_forward_pass() and after_optimizer_step()
  void load(const std::string& folder);

  /// The tables, for inspection.
  [[nodiscard]] const std::vector<StateTable>& tables() const { return tables_; }
  /// Number of steps done. Unused if rows are counted.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// For a resumed run. @throws OptionError for a negative number
  void set_steps(std::int64_t steps);
  /// Returns the size of all tables, in bytes.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  /// Checks optimizer and parameter; creates no tables.
  OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, StepCount count);
  void check_tables() const;
  void check_states() const;
  void check_distinct(const at::Tensor& rows) const;
  void check_saved(const std::string& folder) const;
  [[nodiscard]] std::size_t states() const { return tables_.size() - (by_row_ ? 1 : 0); }

  optim::LiveStates live_;
  at::Tensor parameter_;
  bool by_row_;
  std::optional<std::int64_t>
      table_rows_;                  ///< unknown if the optimizer has no states and no tables were given
  std::vector<StateTable> tables_;  ///< of the states, then of the row counts if rows are counted
  std::vector<at::Tensor>
      buffers_;            ///< what the optimizer has of each table, with room for the largest batch
  at::Tensor rows_;        ///< of before_forward_pass(), until they are put back
  bool were_set_ = false;  ///< false for LibTorch's SGD before its first step, which creates its states
  std::int64_t steps_ = 0;
};

}  // namespace speedtorch
