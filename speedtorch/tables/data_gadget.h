/// A table of data, of any rank and in any placement, whose rows are got and set by their numbers.
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

/// There is none without a table: each is made from a file, a tensor or an array, or over a table that is
/// there. Rows come to `model`, the device that they are made for; they are set from tensors of any device.
/// One on a GPU, or that prefetched for one, is to end before main() does: LibTorch's pools, which its memory
/// goes back to, end the process with an error if that comes later.
/// The functions throw what those of speedtorch/tables/table_rows.h, table.h and saved_tables.h throw.
class DataGadget {
 public:
  /// A `.npy` file: read into the placement, or, for `mapped`, the file itself.
  static DataGadget from_file(const std::string& path, const TableOptions& options = default_table_options(),
                              at::Device model = at::kCPU, Access access = Access::read_only);
  /// A copy of a tensor on any device.
  static DataGadget from_tensor(const at::Tensor& tensor,
                                const TableOptions& options = default_table_options(),
                                at::Device model = at::kCPU);
  /// A copy of an array: `values` in C order, of that shape.
  /// @throws ShapeError where there are more or fewer of them than the shape has
  template <class T>
  static DataGadget from_array(std::span<const T> values, at::IntArrayRef sizes,
                               const TableOptions& options = default_table_options(),
                               at::Device model = at::kCPU) {
    return from_memory(values.data(), values.size(), c10::CppTypeToScalarType<T>::value, sizes, options,
                       model);
  }
  explicit DataGadget(Table table, at::Device model = at::kCPU);

  /// The rows of an index, in its shape before theirs, as a new tensor.
  [[nodiscard]] at::Tensor get_data(const RowIndex& index) const {
    return gather_rows(table_, index, model_);
  }
  /// The same into `out`, on any device. @throws AutogradError where it requires a gradient and gradients are
  /// on
  void get_data(const RowIndex& index, at::Tensor& out) const { gather_rows(table_, index, out); }
  /// Sets the rows of an index. Batches that are being prefetched get the new values. By default the last of
  /// several values of a row stays.
  void insert_data(const at::Tensor& values, const RowIndex& index, Duplicates duplicates = Duplicates::last);

  /// Begins to gather a batch, of which there may be two at once (Prefetcher, speedtorch/tables/prefetch.h).
  /// @throws OrderError where two are in flight
  void prefetch(const RowIndex& index);
  /// The oldest batch that prefetch() began. It stays as it is until the next take().
  /// @throws OrderError where there is none; what its gather threw
  at::Tensor take();

  /// As np.save() writes it; in place of what had the name (speedtorch/tables/saved_tables.h).
  void save(const std::string& path) const;
  /// Sets all rows to those of a `.npy` file. @throws ShapeError naming both where shape or dtype differ
  void load(const std::string& path);

  /// All rows on the host, independent of the table.
  [[nodiscard]] at::Tensor host_copy() const { return speedtorch::host_copy(table_); }
  /// The same by pieces of some bytes (speedtorch/tables/table_rows.h).
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
  std::unique_ptr<Prefetcher> prefetcher_;  ///< made when first wanted
};

}  // namespace speedtorch
