/// A table that counts how often two classes occur together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "speedtorch/rows/row_index.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// Exact int64 counts [classes, classes] that do not depend on the number of threads. In memory that the host
/// reaches: every placement but `device`. Not thread-safe.
class CoOccurrence {
 public:
  /// All counts are 0. The table takes 8 classes^2 bytes. @throws as Table::filled(), above all LimitError
  explicit CoOccurrence(std::int64_t classes, const TableOptions& options = default_table_options());
  /// Loads what save() or np.save() wrote from an int64 [classes, classes] array. A `mapped` table counts in
  /// the file itself. @throws ShapeError for another array; FileError, NpyError
  static CoOccurrence from_file(const std::string& path,
                                const TableOptions& options = default_table_options());

  /// Adds 1 to count (first[i], second[i]) for each i, on LibTorch's threads. Both are int32 or int64, of one
  /// shape.
  /// @throws IndexError; ShapeError naming both shapes: both before it counts anything
  void add_pairs(const at::Tensor& first, const at::Tensor& second);
  /// Adds all counts of the other table, such as that of another part of the text. @throws ShapeError naming
  /// both shapes
  void add(const CoOccurrence& other);

  /// The counts of these first classes as a new tensor: the index's shape, then [classes].
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
