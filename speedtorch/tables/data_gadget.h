/// A table of any rank in any placement, whose rows are read and written by number.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "speedtorch/tables/prefetch.h"
#include "speedtorch/tables/table.h"
#include "speedtorch/tables/table_rows.h"

namespace speedtorch {

/// A `DataGadget` always owns a table: from a file, a tensor, an array, or an existing Table. It returns rows
/// on the device `model` and takes rows from any device. Its functions throw what those of
/// speedtorch/tables/table_rows.h, table.h and saved_tables.h throw.
///
/// Destroy it before main() ends if it is on a GPU or prefetches for one. Later, LibTorch's memory pools end
/// the process with an error.
class DataGadget {
 public:
  /// From a `.npy` file: reads it into the placement, or, for `mapped`, maps the file itself.
  static DataGadget from_file(const std::string& path, const TableOptions& options = default_table_options(),
                              at::Device model = at::kCPU, Access access = Access::read_only);
  /// A copy of a tensor on any device.
  static DataGadget from_tensor(const at::Tensor& tensor,
                                const TableOptions& options = default_table_options(),
                                at::Device model = at::kCPU);
  /// A copy of an array: `values` in C order, of shape `sizes`.
  /// @throws ShapeError if the number of values does not match the shape
  template <class T>
  static DataGadget from_array(std::span<const T> values, at::IntArrayRef sizes,
                               const TableOptions& options = default_table_options(),
                               at::Device model = at::kCPU) {
    return from_memory(values.data(), values.size(), c10::CppTypeToScalarType<T>::value, sizes, options,
                       model);
  }
  explicit DataGadget(Table table, at::Device model = at::kCPU);

  /// The rows of an index as a new tensor: the index's shape, then the row's.
  [[nodiscard]] at::Tensor get_data(const RowIndex& index) const {
    return gather_rows(table_, index, model_);
  }
  /// Gathers into `out`, on any device. @throws AutogradError if it requires a gradient while gradients are
  /// on
  void get_data(const RowIndex& index, at::Tensor& out) const { gather_rows(table_, index, out); }
  /// Sets the rows of an index. Batches that are being prefetched get the new values. By default the last of
  /// several values of a row wins.
  void insert_data(const at::Tensor& values, const RowIndex& index, Duplicates duplicates = Duplicates::last);

  /// Starts to gather a batch. At most two may be in flight (Prefetcher, speedtorch/tables/prefetch.h).
  /// @throws OrderError if two are in flight
  void prefetch(const RowIndex& index);
  /// Returns the oldest batch of prefetch(). It stays valid until the next take().
  /// @throws OrderError if none is in flight; what its gather threw
  at::Tensor take();

  /// Saves as np.save() does and replaces a file of that name (speedtorch/tables/saved_tables.h).
  void save(const std::string& path) const;
  /// Sets all rows to those of a `.npy` file. @throws ShapeError naming both if shape or dtype differ
  void load(const std::string& path);

  /// A copy of all rows on the host.
  [[nodiscard]] at::Tensor host_copy() const { return speedtorch::host_copy(table_); }
  /// Passes all rows to `piece`, `bytes` at a time (speedtorch/tables/table_rows.h).
  void each_piece(std::int64_t bytes,
                  const std::function<void(const at::Tensor& rows, std::int64_t first_row)>& piece) const {
    speedtorch::each_piece(table_, bytes, piece);
  }

  [[nodiscard]] const Table& table() const { return table_; }
  [[nodiscard]] at::IntArrayRef sizes() const { return table_.sizes(); }
  [[nodiscard]] at::Device model() const { return model_; }

 private:
  static DataGadget from_memory(const void* values, std::size_t count, at::ScalarType dtype,
                                at::IntArrayRef sizes, const TableOptions& options, at::Device model);

  Table table_;
  at::Device model_;
  std::unique_ptr<Prefetcher> prefetcher_;  ///< created when first needed
};

}  // namespace speedtorch
