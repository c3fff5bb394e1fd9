/// Gathers rows of a file that may be larger than memory.
///
/// A plain mapping reads cold rows one at a time, when each is touched, and reads ahead needlessly. FileRows
/// sorts the rows of a batch, reads each once, joins neighbours, and keeps hundreds of reads in flight.
/// docs/cold-reads.md has the alternatives and figures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "speedtorch/files/file_reads.h"
#include "speedtorch/system/mapping.h"

namespace speedtorch {

/// - `io_uring`: many reads in flight
/// - `advice`: announces the reads (posix_fadvise) and then performs them one by one; works everywhere, and
///   is about as fast on slow disks
/// - `automatic`: io_uring, or advice if the program or the system has no io_uring
enum class FileEngine { automatic, io_uring, advice };

struct FileRowsOptions {
  FileEngine engine = FileEngine::automatic;
  int depth =
      256;  ///< maximum of reads in flight, 1 to 4096; more than 256 was no faster on the disk measured
  /// If the pages of a batch are resident, copies its rows from a mapping, which is several times as fast as
  /// reading. False: always reads.
  bool copy_cached = true;
};

/// Reads through the page cache, so it sees writes through a mapping of the same file, and rows that were
/// read once are warm.
///
/// Any thread may use it, one at a time; the work runs on LibTorch's threads, as in gather_rows(). Several
/// objects on one file are independent. Do not use an object on both sides of a fork().
class FileRows {
 public:
  /// @param table its descriptor is duplicated; the caller may close it
  /// @throws ShapeError for an impossible shape or a depth out of range; FileError if the file is unusable or
  /// too short, or if the requested engine is missing
  explicit FileRows(const FileTable& table, const FileRowsOptions& options = {});
  ~FileRows();
  FileRows(const FileRows&) = delete;
  FileRows& operator=(const FileRows&) = delete;

  /// out[i, ...] = row index[i] of the file. `index` is int32 or int64 with n elements. `out` has n rows of
  /// row_bytes bytes, of any dtype. Both are contiguous CPU tensors.
  ///
  /// Like any mapping, the copy from resident pages ends the process (SIGBUS) if the file shrinks during the
  /// call or the disk fails. With copy_cached = false this is a FileError.
  /// @throws IndexError naming position, value and bound; ShapeError; AutogradError if `out` requires a
  /// gradient while gradients are on; LazyTensorError for `out`: all before it reads or writes
  /// @throws FileError if the file was shrunk or a read fails; then the contents of `out` are unspecified,
  /// and nothing writes to it any more
  void gather(const at::Tensor& index, at::Tensor& out);

  /// The engine in use, never `automatic`.
  [[nodiscard]] FileEngine engine() const { return engine_; }
  /// Why `automatic` did not choose io_uring; empty if it did.
  [[nodiscard]] const std::string& why_not_ring() const { return why_not_ring_; }

  /// How the last gather got its rows.
  struct Done {
    bool copied = false;     ///< from the mapping, not by reads
    std::int64_t reads = 0;  ///< the number of reads
  };
  [[nodiscard]] Done last() const { return last_; }

 private:
  void check_size() const;
  [[nodiscard]] bool is_resident(std::int64_t offset, bool without_fetch);
  [[nodiscard]] bool map_rows();
  [[nodiscard]] const std::byte* mapped_rows();
  template <class Index>
  [[nodiscard]] bool mostly_cached(const Index* index, std::int64_t count);
  template <class Index>
  void gather_into(const Index* index, std::int64_t count, std::byte* out);

  Descriptor file_;
  FileTable table_;
  bool copy_cached_;
  bool owned_ = false;
  FileEngine engine_ = FileEngine::advice;
  std::string why_not_ring_;
  std::unique_ptr<FileReader> reader_;
  void* mapping_ = nullptr;  ///< of the file up to the last row; created when first needed
  Done last_;
};

/// For the library's own files: what FileRows::gather() checks before it looks at the index's numbers.
/// @throws ShapeError, PlacementError, AutogradError and LazyTensorError as it does
void check_file_operands(const at::Tensor& index, const at::Tensor& out, std::int64_t row_bytes);
/// The index's part. @throws ShapeError, PlacementError
void check_file_index(const at::Tensor& index);

}  // namespace speedtorch
