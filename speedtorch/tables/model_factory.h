/// A model's parameter whose rows live in a table, of which only those that a step needs are in the model.
///
/// before_forward_pass() gathers the rows of a batch into the parameter, after_optimizer_step() writes them
/// back. The parameter stays the same object, so the optimizer that has it keeps it; its first dimension is
/// as long as the batch has rows. A row that a batch names several times is in the parameter once: the
/// gradients of its places are then summed by autograd, as those of the whole table would be, and the model
/// looks rows up by `positions()` instead of by their numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/rows/duplicates.h"
#include "speedtorch/tables/table.h"
#include "speedtorch/tables/table_rows.h"

namespace speedtorch {

/// Numbers for the samples of a batch and, where there are any, for negative samples beside them.
struct Samples {
  at::Tensor positives;
  at::Tensor negatives;  ///< undefined where there are none
};

/// What a step is made of: int64 arange(batch * positives) as [batch, positives], and for `negatives` above 0
/// the numbers that follow as [batch, negatives]. The same in each step, so a model that is given these looks
/// its rows up in the order in which the indices came.
/// @throws ShapeError for a negative number
Samples variable_transformer(std::int64_t batch, std::int64_t positives, std::int64_t negatives = 0);

class ModelFactory {
 public:
  /// @param weight     the model's parameter, by identity: a floating-point leaf of shape [any, R...]; its
  ///                   device is the model's
  /// @param rows       of the table, which is [rows, R...] of the weight's dtype
  /// @param duplicates `accumulate`: rows that are named several times are in the parameter once.
  ///                   `reject`: they are a DuplicateError, the rows of the parameter are in the order of the
  ///                   indices, and variable_transformer() gives the model's constant inputs
  /// @throws ShapeError for a weight that is not as above; OptionError for the other Duplicates, by which
  /// all but one of a row's gradients would be lost
  ModelFactory(at::Tensor weight, std::int64_t rows, const TableOptions& options = default_table_options(),
               Duplicates duplicates = Duplicates::accumulate);
  /// Over a table that is there, as that of a file that a run goes on with (Table::from_file()), or one that
  /// others use too.
  /// @throws as above; ShapeError naming both where its rows or dtype are not the weight's; FileError for the
  /// table of a file that is open `read_only`
  ModelFactory(at::Tensor weight, Table table, Duplicates duplicates = Duplicates::accumulate);

  ModelFactory(ModelFactory&&) = default;
  ModelFactory& operator=(ModelFactory&&) = default;

  // One of these makes the table. Called again, it sets the one that is there. They throw what
  // Table::filled() throws, and OrderError while rows are in the parameter, which would then be written over
  // the new ones.
  void zeros_init();
  /// Without a seed each table gets other numbers: torch::manual_seed() repeats them.
  void uniform_init(double low, double high, std::optional<std::uint64_t> seed = {});
  void normal_init(double mean, double std, std::optional<std::uint64_t> seed = {});
  /// @param function sets the whole table, in place: once, on this thread. torch::nn::init's do so.
  void custom_init(const Custom& function);
  /// @param function sets the rows it is given, in place: several pieces at once on several threads
  void custom_init_by_pieces(const ByPieces& function);
  /// What np.save() or save_npy() wrote. @throws ShapeError naming both where shape or dtype are not the
  /// table's; FileError, NpyError
  void load_npy(const std::string& path);
  /// What torch.save() of a tensor wrote. @throws as load_npy()
  void load_torch(const std::string& path);

  /// Puts the rows of the indices into the parameter, on its device, and drops its gradient. Indices are
  /// int32 or int64, of any shape and device.
  /// @throws OrderError before the table was made, and while rows of an earlier call are not written back;
  /// IndexError, DuplicateError, ShapeError, and nothing has changed then
  void before_forward_pass(const at::Tensor& positives, const at::Tensor& negatives = {});

  /// The table's rows that are in the parameter, in its order: int64, on the host.
  /// @throws OrderError before the first before_forward_pass()
  [[nodiscard]] const at::Tensor& rows() const;
  /// Where in the parameter each index of the last before_forward_pass() is: int64 of the shapes of its
  /// arguments, on the parameter's device. @throws OrderError likewise
  [[nodiscard]] const Samples& positions() const;

  /// Writes the parameter's rows back to the table.
  /// @throws OrderError unless it follows a before_forward_pass(); ShapeError where the parameter has other
  /// rows than that left in it
  void after_optimizer_step();
  /// The same for callers who name the indices again. @throws OrderError where they are not those of
  /// before_forward_pass(), and nothing was written
  void after_optimizer_step(const at::Tensor& positives, const at::Tensor& negatives = {});
  /// Gives up the rows that are in the parameter, as after a forward pass that is not trained on.
  void skip_optimizer_step() { is_open_ = false; }

  void save_npy(const std::string& path) const;
  void save_torch(const std::string& path) const;
  [[nodiscard]] at::Tensor host_copy() const;

  /// @throws OrderError before it was made
  [[nodiscard]] const Table& table() const;
  [[nodiscard]] const at::Tensor& weight() const { return weight_; }
  [[nodiscard]] at::IntArrayRef sizes() const { return sizes_; }

 private:
  void require_closed() const;
  void init(const Fill& with);
  void require_settable(at::IntArrayRef sizes, at::ScalarType dtype) const;
  void show(std::int64_t count);

  at::Tensor weight_;
  std::vector<std::int64_t> sizes_;
  TableOptions options_;
  Duplicates duplicates_;
  std::optional<Table> table_;
  at::Tensor buffer_;  ///< the parameter's memory; grows and stays
  at::Tensor named_;   ///< the indices of the last call, positives and then negatives, int64 on the host
  at::Tensor rows_;
  Samples positions_;
  bool is_open_ = false;
};

}  // namespace speedtorch
