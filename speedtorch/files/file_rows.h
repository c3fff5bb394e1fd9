/// Rows of a file that may be larger than memory, read in batches.
///
/// A plain mapping reads a cold row when it is touched, one at a time, and reads ahead what nobody queried
/// for. Here the rows of a batch are sorted, each is queried for once, neighbours with one read, and hundreds
/// of reads are in flight at once. docs/cold-reads.md has what was tried, with figures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "speedtorch/files/file_reads.h"
#include "speedtorch/system/mapping.h"

namespace speedtorch {

/// `io_uring`: many reads in flight. `advice`: the system is told of the reads to come (posix_fadvise), then
/// they are made one by one; needs nothing, and is about as fast where the disk is slow. `automatic`:
/// io_uring, or advice where the program or the system has none.
enum class FileEngine { automatic, io_uring, advice };

struct FileRowsOptions {
  FileEngine engine = FileEngine::automatic;
  int depth = 256;  ///< reads in flight at most, 1 to 4096; more than 256 brought nothing on the disk we had
  /// Where the pages of a batch are in memory already, its rows are copied from a mapping, which is several
  /// times as fast as any read. False: always read.
  bool copy_cached = true;
};

/// Reads through the page cache, so that writes through a mapping of the same file are seen, and rows that
/// were read once are warm.
///
/// Used by one thread at a time, whichever; the work goes to LibTorch's threads as that of gather_rows()
/// does. Several objects on one file are independent of each other. Not to be used on both sides of a fork().
class FileRows {
 public:
  /// @param table its descriptor is duplicated; the caller may close it
  /// @throws ShapeError for a shape that no table has or a depth out of range; FileError where the file
  /// cannot be used or does not have the rows, or where the engine that was queried for is not there
  explicit FileRows(const FileTable& table, const FileRowsOptions& options = {});
  ~FileRows();
  FileRows(const FileRows&) = delete;
  FileRows& operator=(const FileRows&) = delete;

  /// out[i, ...] = row index[i] of the file. `index` is int32 or int64, of n elements, and `out` has n rows
  /// of row_bytes bytes, of any dtype; both are contiguous CPU tensors.
  ///
  /// @throws IndexError naming position, value and bound, ShapeError, and AutogradError where `out` requires
  /// a gradient and gradients are on, and LazyTensorError for `out`, before anything is read or written.
  /// FileError where the file was shrunk or a read fails: what `out` then has is unspecified, and nothing
  /// writes to it any more. A file that is shrunk during the call, or a disk that fails, while rows are
  /// copied from the mapping ends the process (SIGBUS), as with any mapping; with copy_cached = false it is a
  /// FileError.
  void gather(const at::Tensor& index, at::Tensor& out);

  /// The engine in use, never `automatic`.
  [[nodiscard]] FileEngine engine() const { return engine_; }
  /// Why `automatic` did not become io_uring; empty where it did.
  [[nodiscard]] const std::string& why_not_ring() const { return why_not_ring_; }

  /// What the last gather did.
  struct Done {
    bool copied = false;     ///< from the mapping; else by reads
    std::int64_t reads = 0;  ///< how many
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
  void* mapping_ = nullptr;  ///< of the whole file up to the last row; made when first needed
  Done last_;
};

}  // namespace speedtorch
