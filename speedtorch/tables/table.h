/// A table in one placement: rows of any shape and one dtype, on memory of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/files/mapped_file.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/memory/table_options.h"
#include "speedtorch/tables/fills.h"

namespace speedtorch {

/// A value: copies are the same table, which lives as long as the last of them or of its tensors. Each of the
/// functions that make one gives a whole table or throws and leaves nothing, no file either.
///
/// All of them throw LimitError or MemoryError where the memory cannot be had, PlacementError where CUDA is
/// needed and absent, ShapeError for a shape that no table can have (no dimension, a negative one, more than
/// 2^63 - 1 bytes) or a dtype that is quantized or has no whole bytes, and for a `mapped` table of a name
/// what MappedFile throws (speedtorch/files/mapped_file.h).
class Table {
 public:
  /// Contents are unspecified; in the named file of a `mapped` table, zero.
  /// @param sizes the number of rows, then the shape of one
  static Table empty(at::IntArrayRef sizes, at::ScalarType dtype,
                     const TableOptions& options = default_table_options());

  /// @throws FillError where the dtype cannot hold such numbers; what a custom fill throws
  static Table filled(at::IntArrayRef sizes, at::ScalarType dtype, const Fill& with,
                      const TableOptions& options = default_table_options());

  /// A copy of any strided tensor, on any device: its shape and dtype, rows of one block. Its elements go
  /// straight into place; between a host and a GPU, 64 MiB at a time. @throws ShapeError for a sparse tensor
  static Table from_array(const at::Tensor& array, const TableOptions& options = default_table_options());

  /// The array of a `.npy` file (speedtorch/files/mapped_file.h says which are read): read straight into
  /// place on LibTorch's threads, for a GPU 64 MiB at a time; `mapped` maps the file itself, with that
  /// access.
  /// @throws ShapeError where `options` names another file to be made; NpyError, FileError
  static Table from_file(const std::string& path, const TableOptions& options = default_table_options(),
                         Access access = Access::read_only);

  /// The same as a copy in any options, a new `mapped` file too.
  static Table copied_from_file(const std::string& path,
                                const TableOptions& options = default_table_options());

  /// Over memory that is there. @throws ShapeError where it is too small
  Table(std::shared_ptr<Memory> memory, at::IntArrayRef sizes, at::ScalarType dtype);

  /// All rows, on the memory itself: on `cpu`, or on `cuda:N` for `device` and as the zero-copy alias of
  /// `pinned`.
  [[nodiscard]] at::Tensor tensor() const;
  /// The same as a CPU tensor. @throws PlacementError for a `device` table
  [[nodiscard]] at::Tensor host_tensor() const;
  /// Sets all elements anew, after what the current stream of the table's GPU still does with them.
  /// @throws as filled(), part of the table is then set; FileError as require_writable()
  void fill(const Fill& with);
  /// The elements of a strided tensor on any device, as from_array() copies them; waits likewise.
  /// @throws ShapeError naming both where shape or dtype differ; FileError as require_writable()
  void set(const at::Tensor& array);
  /// The array of a `.npy` file, straight into place.
  /// @throws ShapeError naming both where shape or dtype differ; FileError, NpyError; FileError as
  /// require_writable()
  void load(const std::string& path);
  /// @throws FileError for the `mapped` table of a file that is open `read_only`: a write to it would end the
  /// process
  void require_writable() const;

  [[nodiscard]] std::int64_t rows() const { return sizes_.front(); }
  [[nodiscard]] at::IntArrayRef sizes() const { return sizes_; }
  [[nodiscard]] at::ScalarType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t bytes() const;  ///< of all elements
  [[nodiscard]] Placement placement() const { return memory_->placement(); }
  [[nodiscard]] const std::shared_ptr<Memory>& memory() const { return memory_; }
  /// Of a `mapped` table that has a name, for flush(); null for others.
  [[nodiscard]] std::shared_ptr<MappedFile> file() const;

 private:
  void require_fits(at::IntArrayRef shape, at::ScalarType type, const std::string& source = {}) const;

  std::shared_ptr<Memory> memory_;
  std::vector<std::int64_t> sizes_;
  at::ScalarType dtype_;
};

/// Waits for what the current stream of the table's GPU still does to memory that the host is to read or to
/// write; nothing for a table of the host's own.
void wait_for_gpu(const Table& table);

}  // namespace speedtorch
