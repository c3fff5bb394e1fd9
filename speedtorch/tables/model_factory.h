/// A model's parameter that holds the rows of the current batch, while all rows live in a table.
///
/// before_forward_pass() gathers the batch's rows into the parameter; after_optimizer_step() writes them
/// back. The parameter stays the same object, so its optimizer keeps it. Its first dimension is the number of
/// the batch's rows.
///
/// A row that a batch repeats is in the parameter once. Autograd then sums the gradients of its positions, as
/// for the whole table, and the model looks rows up by `positions()` instead of by their numbers.
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

/// Row numbers for a batch's samples and, optionally, for its negative samples.
struct Samples {
  at::Tensor positives;
  at::Tensor negatives;  ///< undefined if there are none
};

/// A step's constant inputs: int64 arange(batch * positives) as [batch, positives], and for `negatives` above
/// 0 the numbers that follow as [batch, negatives]. With these a model looks up its rows in the order of the
/// indices.
/// @throws ShapeError for a negative number
Samples variable_transformer(std::int64_t batch, std::int64_t positives, std::int64_t negatives = 0);

class ModelFactory {
 public:
  /// @param weight the model's parameter object: a floating-point leaf of shape [any, R...] on the model's
  /// device
  /// @param rows of the table, which is [rows, R...] of the weight's dtype
  /// @param duplicates `accumulate`: the parameter has repeated rows once. `reject`: they are a
  /// DuplicateError, the parameter's rows follow the order of the indices, and variable_transformer() gives
  /// the model's constant inputs.
  /// @throws ShapeError for another kind of weight; OptionError for the other Duplicates, which would lose
  /// all but one of a row's gradients
  ModelFactory(at::Tensor weight, std::int64_t rows, const TableOptions& options = default_table_options(),
               Duplicates duplicates = Duplicates::accumulate);
  /// Over an existing table, such as one of a file to resume from (Table::from_file()), or one that others
  /// share.
  /// @throws as above; ShapeError naming both if its rows or dtype do not match the weight; FileError for the
  /// table of a file that is open `read_only`
  ModelFactory(at::Tensor weight, Table table, Duplicates duplicates = Duplicates::accumulate);

  ModelFactory(ModelFactory&&) = default;
  ModelFactory& operator=(ModelFactory&&) = default;

  // Each of these creates the table, or sets the existing one. They throw what Table::filled() throws, and
  // OrderError while the parameter has rows that are not written back, because these would overwrite the new
  // ones.
  void zeros_init();
  /// Without a seed each table gets different numbers; torch::manual_seed() reproduces them.
  void uniform_init(double low, double high, std::optional<std::uint64_t> seed = {});
  void normal_init(double mean, double std, std::optional<std::uint64_t> seed = {});
  /// @param function sets the whole table in place, once, on this thread, as the functions of torch::nn::init
  /// do
  void custom_init(const Custom& function);
  /// @param function sets the rows that it gets, in place: several pieces at once on several threads
  void custom_init_by_pieces(const ByPieces& function);
  /// Loads what np.save() or save_npy() wrote. @throws ShapeError naming both if shape or dtype differ from
  /// the table's; FileError, NpyError
  void load_npy(const std::string& path);
  /// Loads what torch.save() wrote from a tensor. @throws as load_npy()
  void load_torch(const std::string& path);

  /// Gathers the rows of the indices into the parameter, on its device, and drops its gradient. Indices are
  /// int32 or int64, of any shape and device.
  /// @throws OrderError before the table exists, and while rows of an earlier call are not written back;
  /// IndexError, DuplicateError, ShapeError: all before anything changes
  void before_forward_pass(const at::Tensor& positives, const at::Tensor& negatives = {});

  /// The numbers of the rows that the parameter holds, in its order: int64, on the host.
  /// @throws OrderError before the first before_forward_pass()
  [[nodiscard]] const at::Tensor& rows() const;
  /// The parameter's row for each index of the last before_forward_pass(): int64 of its arguments' shapes, on
  /// the parameter's device. @throws OrderError likewise
  [[nodiscard]] const Samples& positions() const;

  /// Writes the parameter's rows back to the table.
  /// @throws OrderError unless it follows a before_forward_pass(); ShapeError if the parameter has another
  /// number of rows than that left in it
  void after_optimizer_step();
  /// Does the same and checks the indices. @throws OrderError, before it writes anything, if they are not
  /// those of before_forward_pass()
  void after_optimizer_step(const at::Tensor& positives, const at::Tensor& negatives = {});
  /// Discards the rows in the parameter, as after a forward pass without training.
  void skip_optimizer_step() { is_open_ = false; }

  void save_npy(const std::string& path) const;
  void save_torch(const std::string& path) const;
  [[nodiscard]] at::Tensor host_copy() const;

  /// @throws OrderError before the table exists
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
