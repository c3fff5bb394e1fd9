/// A table in a `.npy` file that is mapped into memory: read and written in place, larger than memory if need
/// be, and a plain file for NumPy. docs/files.md has the format and what survives which crash.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/files/npy_array.h"
#include "speedtorch/files/pinned_file.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/system/mapping.h"
#include "speedtorch/system/new_file.h"

namespace speedtorch {

enum class Access { read_only, read_write };

/// A `.npy` file that is open, and what is in it.
struct NpyFile {
  std::string name;  ///< without its folder
  Descriptor file;
  NpyArray array;
};

/// Of any padding that NumPy reads, also where its elements cannot be mapped because they lie askew.
/// @throws as MappedFile::open()
NpyFile open_npy(const std::string& path, Access access);

/// The memory is that of the elements; `data()` is the first. The file stays open and mapped as long as the
/// object or one of its tensors lives. Several threads may use one object, and several objects one file.
///
/// What a crash leaves. A row that a flush() covered which has returned is whole and has what it had when
/// flush() was called; a row that was not written since the last flush() is whole and has its old content; a
/// row that was written and not yet flushed is unspecified: old, new or a mix. Where only the process dies
/// (kill -9), all that was written is there, flushed or not.
///
/// A file that somebody shrinks while it is mapped has no bytes behind its new end, and touching them ends
/// the process (SIGBUS). check(), and each operation here that says so, finds it before it touches anything.
/// What shrinks between the check and the end of the operation is not found, and no signal handler is
/// installed for it. A tensor of a `read_only` file cannot be written: the process would end (SIGSEGV).
class MappedFile final : public Memory {
 public:
  /// Called with the array of a file that has no name yet, all zeros; what it throws ends create().
  using Fill = std::function<void(at::Tensor&)>;

  /// The file of that name, as NumPy or create() wrote it: format 1.0, 2.0 or 3.0, little-endian, C order.
  /// @throws NpyError where it is no such file, holds elements that LibTorch has no type for, or is shorter
  /// or longer than its header says; FileError where it is missing, no regular file, or not permitted;
  /// MemoryError where the address space does not suffice. The first two name the file, without its folder.
  static std::shared_ptr<MappedFile> open(const std::string& path, Access access);

  /// A new file of `shape`, filled by `fill`, else zeros, whose blocks are taken from the disk before
  /// anything is written; `sparse` leaves that to the writes (speedtorch/placement.h). It appears under its
  /// name when it is whole and on the disk, and never in the place of another; until then it has no name
  /// (where the file system cannot do that, a temporary one in the same folder, removed after an error).
  /// @throws FileError where the name is taken, the folder is missing or not writable, the disk has not as
  /// many bytes free or the limit on file sizes is below them; NpyError where NumPy has no such type.
  static std::shared_ptr<MappedFile> create(const std::string& path, at::IntArrayRef shape,
                                            at::ScalarType dtype, const Fill& fill = {},
                                            Space space = Space::reserved);

  ~MappedFile() override;

  [[nodiscard]] Placement placement() const override { return Placement::mapped; }
  [[nodiscard]] std::byte* data() const override { return mapping_.data() + data_offset_; }

  /// All elements, in the file's shape and dtype; the file stays mapped as long as the tensor lives. Checked.
  [[nodiscard]] at::Tensor array() const;
  [[nodiscard]] at::IntArrayRef shape() const { return shape_; }
  [[nodiscard]] at::ScalarType dtype() const { return dtype_; }
  [[nodiscard]] Access access() const { return access_; }
  /// The file's name without its folder, for messages.
  [[nodiscard]] const std::string& name() const { return name_; }

  /// Waits until what was written is on the disk. Nothing for a `read_only` file. Checked.
  /// @throws FileError with the system's answer: what was written may then be lost
  void flush();
  /// The same for rows (of the first dimension) `first_row` to `first_row + rows - 1`, and what shares a page
  /// with them. @throws ShapeError where the file does not have them
  void flush(std::int64_t first_row, std::int64_t rows);

  /// @throws FileError where the file is now shorter than it was when it was mapped, with both sizes
  void check() const;

  /// Registers the mapping with CUDA, read-only, where the driver can; the file must then fit into memory. No
  /// error: what stands in the way is the reason. Checked. Not yet run on a GPU.
  [[nodiscard]] PinnedFile pin(at::Device device);

  [[nodiscard]] int fd() const { return file_.get(); }  ///< for pread; stays open with the object
  [[nodiscard]] std::int64_t data_offset() const {
    return data_offset_;
  }  ///< of the first element in the file

 private:
  MappedFile(NpyFile source, Access access);
  [[nodiscard]] std::int64_t mapped_bytes() const { return data_offset_ + bytes(); }
  void sync(std::int64_t begin, std::int64_t end) const;

  std::string name_;
  Access access_;
  std::vector<std::int64_t> shape_;
  at::ScalarType dtype_;
  std::int64_t data_offset_;
  Descriptor file_;
  FileMapping mapping_;
};

/// gather_rows() from the file's array, checked. The requirements and errors are those of tensors
/// (speedtorch/rows/rows.h), and FileError. @throws FileError where the file was shrunk
void gather_rows(const MappedFile& table, const at::Tensor& index, at::Tensor& out);

/// scatter_rows() into the file's array, checked. @throws FileError where the file was shrunk or is
/// `read_only`
void scatter_rows(MappedFile& table, const at::Tensor& index, const at::Tensor& values);

}  // namespace speedtorch
