/// An optimizer's states for the rows of a table that is larger than the model: SpeedTorch's
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

/// The rows that a weight holds, in its order, for who fills it without a ModelFactory: int32 or int64 of one
/// dimension, distinct. A type of its own because a batch's indices are not that: a ModelFactory holds their
/// distinct rows, ascending, and states in another order would go to other rows.
class WeightRows {
 public:
  explicit WeightRows(at::Tensor rows) : rows_(std::move(rows)) {}
  [[nodiscard]] const at::Tensor& rows() const { return rows_; }

 private:
  at::Tensor rows_;
};

/// The weight of a model holds the rows of one batch, in one order of distinct rows; a table in any placement
/// holds all of them. This does for the optimizer's states what the table does for the weight: one table for
/// each state, whose rows go into the optimizer before a step and back after it.
///
///   speedtorch::OptimizerFactory states(optimizer, embedding->weight, 2'000'000, {.placement = ...});
///   for (...) {
///     vectors.before_forward_pass(batch);   // the ModelFactory of the weight
///     states.before_forward_pass(vectors);
///     ... forward, backward, optimizer.step() ...
///     states.after_optimizer_step();  // or skip_optimizer_step()
///   }
///
/// Optimizers: LibTorch's Adam, AdamW (amsgrad too), Adagrad, RMSprop (momentum, centered) and SGD
/// (momentum), and all of speedtorch/optim/optimizers.h. Nothing has to have been stepped before. A step is
/// then that of the rows in the batch alone: SGD and Adagrad are equal to a step of the whole table, Adam is
/// SparseAdam (rows that are not named do not move). The count of steps is the optimizer's, one for all rows,
/// or each row's own (StepCount::by_row), which LibTorch's optimizers cannot do and ours can.
///
/// For one thread at a time. The optimizer must outlive the object.
class OptimizerFactory {
 public:
  /// New state tables of `rows` rows of the parameter's row shape and dtype, set as torch begins: to zero,
  /// Adagrad's to its initial value, Rprop's step sizes to the rate. The parameter's own number of rows is of
  /// no matter. In a `mapped` home that has a name, that is a new folder of one `.npy` file for each table.
  /// @throws OptimizerError where the optimizer does not have the parameter, is of an unsupported kind, or
  /// cannot count by row; PlacementError for counts by row of a parameter on a GPU; ShapeError for one
  /// without dimensions; FileError where the folder is there; what Table throws. Nothing is left then, in
  /// memory or on disk.
  OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, std::int64_t rows,
                   const TableOptions& home = default_table_options(), StepCount count = StepCount::shared);

  /// The same for the model's parameter of that name: "decoder.embedding.weight", or without ".weight".
  /// @throws OptimizerError, listing the names, where there is none
  OptimizerFactory(torch::optim::Optimizer& optimizer, const torch::nn::Module& model,
                   const std::string& variable, std::int64_t rows,
                   const TableOptions& home = default_table_options(), StepCount count = StepCount::shared);

  /// Over tables that are there, each in a placement of its own (as plan_memory() has it), or those of a run
  /// that goes on (set_steps()): in the order of state_names(), and with counts by row the rows' behind them.
  /// @throws ShapeError where one is not of the parameter's row shape and dtype, or of other rows than the
  /// first; FileError for one that is open `read_only`; OptimizerError and PlacementError as above
  OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, std::vector<Table> tables,
                   StepCount count = StepCount::shared);

  /// Takes the states of the rows that the weight holds into the optimizer, in the weight's order: after the
  /// before_forward_pass() of its ModelFactory, whatever indices that was given.
  /// @throws OptimizerError for the ModelFactory of another parameter; OrderError before its rows are in the
  /// weight; as below
  void before_forward_pass(const ModelFactory& weight);
  /// The same for a weight that is filled by hand.
  /// @throws IndexError (an optimizer without states, over no tables, knows no bound); DuplicateError;
  /// ShapeError for another index; OrderError where the rows of an earlier call were not put back;
  /// OptimizerError where an option has changed so that the optimizer has other states. The optimizer is then
  /// as it was.
  void before_forward_pass(const WeightRows& weight);

  /// Puts the states of the rows of before_forward_pass() back into the tables.
  /// @throws OrderError where there are none; OptimizerError where the optimizer's states are gone or of
  /// another shape
  void after_optimizer_step();

  /// The same; @throws OrderError where these are other rows.
  void after_optimizer_step(const at::Tensor& rows);

  /// Gives up the states that are in the optimizer, as after a forward pass that is not trained on.
  void skip_optimizer_step() { rows_.reset(); }

  /// Writes all tables and the count of steps to a new folder: `exp_avg.npy` and so on, `steps.npy`, and
  /// `row_steps.npy` where rows are counted; and `optimizer.txt`, which says whose they are. The folder
  /// appears when it is whole and on the disk, or never.
  /// @throws FileError where it is there already or cannot be made; OrderError between before_forward_pass()
  /// and after_optimizer_step()
  void save(const std::string& folder) const;

  /// What save() wrote: from here on steps are those of the run that saved, bit for bit.
  /// @throws FileError and NpyError for files that are missing or none; ShapeError naming both shapes;
  /// OptimizerError where another optimizer saved them (LibTorch's and ours of one name are one), or one with
  /// other states (amsgrad, momentum), where one of both counts by row, or a negative number of steps was
  /// saved; OrderError between before_forward_pass() and after_optimizer_step(). Nothing was changed then.
  void load(const std::string& folder);

  /// To look at.
  [[nodiscard]] const std::vector<StateTable>& tables() const { return tables_; }
  /// How many steps were done; with counts by row they are of no influence.
  [[nodiscard]] std::int64_t steps() const { return steps_; }
  /// Of a run that goes on. @throws OptionError for a negative number
  void set_steps(std::int64_t steps);
  /// Bytes of all tables.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  /// Checks both, and has no tables yet.
  OptimizerFactory(torch::optim::Optimizer& optimizer, const at::Tensor& parameter, StepCount count);
  void check_tables() const;
  void check_states() const;
  void check_distinct(const at::Tensor& rows) const;
  void check_saved(const std::string& folder) const;
  [[nodiscard]] std::size_t states() const { return tables_.size() - (by_row_ ? 1 : 0); }

  optim::LiveStates live_;
  at::Tensor parameter_;
  bool by_row_;
  std::optional<std::int64_t> table_rows_;  ///< unknown to an optimizer without states, over no tables
  std::vector<StateTable> tables_;          ///< of the states, then of the rows' counts where there are such
  std::vector<at::Tensor>
      buffers_;            ///< what the optimizer has of each table, with room for the largest batch
  at::Tensor rows_;        ///< of before_forward_pass(), until they are put back
  bool were_set_ = false;  ///< LibTorch's SGD makes its states itself, in its first step
  std::int64_t steps_ = 0;
};

}  // namespace speedtorch
