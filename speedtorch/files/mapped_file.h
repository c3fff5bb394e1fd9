/// A table in a file that is mapped into memory: a `.npy` file, or a tensor of a safetensors file. It is read
/// and written in place, may be larger than memory, and stays a plain file for NumPy or the package
/// safetensors. docs/files.md describes the formats and what survives a crash.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/files/array_file.h"
#include "speedtorch/files/pinned_file.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch {

/// The memory is that of the elements; `data()` is the first. The file stays open and mapped as long as the
/// object or one of its tensors lives. Several threads may use one object, and several objects one file.
///
/// After a crash of the machine, a row that a completed flush() covered is whole and has its value at that
/// flush. A row that was not written since the last flush() is whole and has its old value. A row that was
/// written and not flushed is unspecified: old, new or a mix. If only the process dies (kill -9), all writes
/// survive.
///
/// If the file is shrunk while it is mapped, touching the bytes behind its new end ends the process (SIGBUS).
/// check(), and each operation marked "checked", detects this before it touches the file; a file that shrinks
/// between the check and the end of the operation goes undetected. The library installs no signal handler. Do
/// not write to the tensor of a `read_only` file: this library refuses it, but LibTorch's own functions end
/// the process (SIGSEGV).
class MappedFile final : public Memory {
 public:
  /// Gets the array of a file that has no name yet, all zeros. Its exceptions end create().
  using Fill = std::function<void(at::Tensor&)>;

  /// Opens a `.npy` file that NumPy or create() wrote, or `FILE.safetensors:TENSOR`.
  /// @throws as open_array() (speedtorch/files/array_file.h); NpyError, SafetensorsError if the elements are
  /// unaligned; MemoryError if the address space is too small
  static std::shared_ptr<MappedFile> open(const std::string& path, Access access);

  /// Creates a file of `shape`, filled by `fill` or with zeros. Takes all blocks from the disk before it
  /// writes; `sparse` takes them as they are written (speedtorch/placement.h). The file appears under its
  /// name once it is whole and on the disk, and never replaces another. Until then it has no name, or, on
  /// file systems that need one, a temporary name in the same folder, which is removed after an error.
  /// @throws FileError if the name is taken, the folder is missing or not writable, the disk is too full or
  /// the limit on file sizes too low; NpyError if NumPy has no such type
  static std::shared_ptr<MappedFile> create(const std::string& path, at::IntArrayRef shape,
                                            at::ScalarType dtype, const Fill& fill = {},
                                            Space space = Space::reserved);

  ~MappedFile() override;

  [[nodiscard]] Placement placement() const override { return Placement::mapped; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data() + (data_offset_ - mapped_from_); }
  [[nodiscard]] bool writable() const override { return access_ == Access::read_write; }
  [[nodiscard]] int file_fd() const override { return file_.get(); }
  [[nodiscard]] std::int64_t file_offset() const override { return data_offset_; }

  /// All elements, in the file's shape and dtype. The file stays mapped as long as the tensor lives. Checked.
  [[nodiscard]] at::Tensor array() const;
  [[nodiscard]] at::IntArrayRef shape() const { return shape_; }
  [[nodiscard]] at::ScalarType dtype() const { return dtype_; }
  [[nodiscard]] Access access() const { return access_; }
  /// The file's name without its folder, with `:TENSOR` for a safetensors file. For messages.
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Waits until all writes are on the disk. Does nothing for a `read_only` file. Checked.
  /// @throws FileError with the system's message; the writes may then be lost
  void flush();
  /// Does the same for rows `first_row` to `first_row + rows - 1` (of the first dimension) and what shares a
  /// page with them. @throws ShapeError if the file does not have these rows
  void flush(std::int64_t first_row, std::int64_t rows);

  /// @throws FileError with both sizes, if the file is now shorter than when it was mapped
  void check() const override;
  void require_writable() const override;

  /// Registers the mapping with CUDA, read-only, if the driver can and the file fits into memory. Otherwise
  /// the result says why not. Checked. Not yet run on a GPU.
  [[nodiscard]] PinnedFile pin(at::Device device);

  [[nodiscard]] int fd() const { return file_.get(); }  ///< for pread; open as long as the object
  [[nodiscard]] std::int64_t data_offset() const {
    return data_offset_;
  }  ///< of the first element in the file

 private:
  MappedFile(ArrayFile source, Access access);
  [[nodiscard]] std::int64_t end() const { return data_offset_ + bytes(); }
  void sync(std::int64_t begin, std::int64_t end) const;

  std::string name_;
  Access access_;
  std::vector<std::int64_t> shape_;
  at::ScalarType dtype_;
  std::int64_t data_offset_;
  std::int64_t mapped_from_;  ///< the page of the byte before the elements, so that no mapping is empty
  Descriptor file_;
  FileMapping mapping_;
};

/// gather_rows() from the file's array, checked. Requirements and errors are those of tensors
/// (speedtorch/rows/rows.h). @throws FileError if the file was shrunk
void gather_rows(const MappedFile& table, const at::Tensor& index, at::Tensor& out);

/// scatter_rows() into the file's array, checked. @throws FileError if the file was shrunk or is `read_only`
void scatter_rows(MappedFile& table, const at::Tensor& index, const at::Tensor& values);

}  // namespace speedtorch
