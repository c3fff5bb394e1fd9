/// A table of counts: how often two things, out of a number of them, were seen together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "speedtorch/rows/row_index.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// int64 counts [classes, classes], exact: they do not depend on the number of threads. For memory that the
/// host reaches: every placement but `device`. Not for use by several threads at once.
class CoOccurrence {
 public:
  /// All counts 0. @throws what Table::filled() throws, LimitError above all: the table takes 8 classes^2
  /// bytes
  explicit CoOccurrence(std::int64_t classes, const TableOptions& options = default_table_options());
  /// What save() or np.save() of an int64 [classes, classes] wrote; for a `mapped` options the file itself,
  /// to be counted on. @throws ShapeError where the array is another; FileError, NpyError
  static CoOccurrence from_file(const std::string& path,
                                const TableOptions& options = default_table_options());

  /// Adds 1 to count (first[i], second[i]) for each i, on LibTorch's threads. int32 or int64, one shape.
  /// @throws IndexError, ShapeError naming both shapes; nothing was counted then
  void add_pairs(const at::Tensor& first, const at::Tensor& second);
  /// The same with all counts of the other table, as of a part of the text. @throws ShapeError naming both
  void add(const CoOccurrence& other);

  /// The counts of some firsts, as a new tensor: the index's shape, then [classes].
  [[nodiscard]] at::Tensor rows(const RowIndex& index) const;
  void save(const std::string& path) const;  ///< as np.save() writes it

  [[nodiscard]] std::int64_t classes() const { return table_.rows(); }
  [[nodiscard]] const Table& table() const { return table_; }
  [[nodiscard]] at::Tensor counts() const { return table_.host_tensor(); }  ///< the table itself

 private:
  explicit CoOccurrence(Table table);

  Table table_;
};

}  // namespace speedtorch
