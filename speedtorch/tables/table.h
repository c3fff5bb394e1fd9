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

/// A handle: copies refer to the same table, which lives as long as the last of them or of its tensors. The
/// functions that create one either return a whole table or throw and leave nothing behind, not even a file.
///
/// All of them throw LimitError or MemoryError if the memory is not available, PlacementError if CUDA is
/// needed and absent, ShapeError for an impossible shape (no dimension, a negative one, more than 2^63 - 1
/// bytes) or a dtype that is quantized or has no whole bytes, and for a named `mapped` table what MappedFile
/// throws (speedtorch/files/mapped_file.h).
class Table {
 public:
  /// Contents are unspecified; in the named file of a `mapped` table they are zero.
  /// @param sizes the number of rows, then the shape of one row
  static Table empty(at::IntArrayRef sizes, at::ScalarType dtype,
                     const TableOptions& options = default_table_options());

  /// @throws FillError if the dtype cannot hold such numbers; what a Custom or ByPieces fill throws
  static Table filled(at::IntArrayRef sizes, at::ScalarType dtype, const Fill& with,
                      const TableOptions& options = default_table_options());

  /// A contiguous copy of a strided tensor on any device. Copies straight into place; between a host and a
  /// GPU, 64 MiB at a time. @throws ShapeError for a sparse tensor
  static Table from_array(const at::Tensor& array, const TableOptions& options = default_table_options());

  /// The array of `FILE.npy` or `FILE.safetensors:TENSOR` (speedtorch/files/array_file.h). Reads straight into
  /// place on LibTorch's threads; for a GPU, 64 MiB at a time. `mapped` maps the file itself, with that
  /// access.
  /// @throws ShapeError if `options` names a file to create; NpyError, SafetensorsError, FileError
  static Table from_file(const std::string& path, const TableOptions& options = default_table_options(),
                         Access access = Access::read_only);

  /// A copy of the array with any options, also in a new `mapped` file.
  static Table copied_from_file(const std::string& path,
                                const TableOptions& options = default_table_options());

  /// Over existing memory. @throws ShapeError if it is too small
  Table(std::shared_ptr<Memory> memory, at::IntArrayRef sizes, at::ScalarType dtype);

  /// All rows, on the memory itself: on `cpu`, or on `cuda:N` for `device` and as the zero-copy alias of
  /// `pinned`.
  [[nodiscard]] at::Tensor tensor() const;
  /// All rows as a CPU tensor. @throws PlacementError for a `device` table
  [[nodiscard]] at::Tensor host_tensor() const;
  /// Sets all elements, after the work that the current stream of the table's GPU has queued.
  /// @throws as filled(), and then part of the table is set; FileError as require_writable()
  void fill(const Fill& with);
  /// Copies the elements of a strided tensor on any device, as from_array() does; waits likewise.
  /// @throws ShapeError naming both if shape or dtype differ; FileError as require_writable()
  void set(const at::Tensor& array);
  /// Reads the array of a file, as from_file() names it, straight into place.
  /// @throws ShapeError naming both if shape or dtype differ; NpyError, SafetensorsError; FileError, also as
  /// require_writable()
  void load(const std::string& path);
  /// @throws FileError for the `mapped` table of a file that is open `read_only`, AccessError for a table
  /// that another process shares and that this one may not write; a write would end the process
  void require_writable() const { memory_->require_writable(); }

  [[nodiscard]] std::int64_t rows() const { return sizes_.front(); }
  [[nodiscard]] at::IntArrayRef sizes() const { return sizes_; }
  [[nodiscard]] at::ScalarType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t bytes() const;  ///< of all elements
  [[nodiscard]] Placement placement() const { return memory_->placement(); }
  [[nodiscard]] const std::shared_ptr<Memory>& memory() const { return memory_; }
  /// The file of a named `mapped` table, for flush(); null for other tables.
  [[nodiscard]] std::shared_ptr<MappedFile> file() const;

 private:
  void require_fits(at::IntArrayRef shape, at::ScalarType type, const std::string& source = {}) const;

  std::shared_ptr<Memory> memory_;
  std::vector<std::int64_t> sizes_;
  at::ScalarType dtype_;
};

/// Waits for the current stream of the table's GPU, before the host reads or writes the memory. Returns at
/// once for a table on the host.
void wait_for_gpu(const Table& table);

}  // namespace speedtorch
