/// Keeps the hot rows of a table in a file in a given number of bytes of memory.
///
/// The system's page cache keeps 4 KiB for a row of 256 B. A RowCache keeps 256 B and 11 bytes of
/// bookkeeping. docs/row-cache.md has the details and figures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/files/file_rows.h"

namespace speedtorch {

/// - `none`: scatter() is refused
/// - `through`: to the file, and to the cache if it holds the row
/// - `back`: to the cache alone; a row reaches the file when others need its slot, or by flush()
enum class CacheWrites { none, through, back };

struct RowCacheOptions {
  /// Memory for rows and their bookkeeping. A call takes memory besides: 4 bytes per look-up, a copy of each
  /// missed row, and FileRows' buffers.
  std::int64_t bytes = 0;
  FileRowsOptions reads;  ///< how missed rows are read
  CacheWrites writes = CacheWrites::none;
};

/// Counts since the cache was made. A look-up is one element of a gather's index.
struct RowCacheStatistics {
  std::int64_t hits = 0;        ///< look-ups of rows in the cache
  std::int64_t misses = 0;      ///< other look-ups
  std::int64_t reads = 0;       ///< rows that gathers and prefetches read from the file, each once per batch
  std::int64_t prefetched = 0;  ///< missed rows that a prefetch had read
  std::int64_t evictions = 0;   ///< rows that made room for others
  std::int64_t written_back = 0;  ///< rows that CacheWrites::back has written to the file
  std::int64_t slots = 0;         ///< the number of rows that the cache can hold
  std::int64_t bytes = 0;         ///< the memory in use for rows and bookkeeping, at most the options' bytes

  /// hits / (hits + misses); 0 before the first look-up.
  [[nodiscard]] double hit_rate() const;
  /// The same of the look-ups since `before` was asked for.
  [[nodiscard]] double hit_rate_since(const RowCacheStatistics& before) const;
};

/// A gather copies the rows that the cache holds and reads the others from the file, all at once. Then a row
/// replaces a held one if it was looked up more often (speedtorch/files/cache_sets.h).
///
/// Several threads may use one object at once: look-ups and reads run side by side. The work runs on
/// LibTorch's threads, as in gather_rows(). Do not use an object on both sides of a fork().
///
/// Writes to the file by others are not seen: the cache returns the rows that it has. A gather returns each
/// row wholly as it was before or after a scatter that runs at the same time.
///
/// With `through`, what survives a crash is what survives after writes to a MappedFile: if the process dies
/// (kill -9), all finished writes survive; the row that was being written is unspecified. With `back`, each
/// row is then wholly old or wholly new, and rows that were written since the last flush() may be old. For
/// this, rows on their way to the file are in a journal, `.NAME.journal` beside the file NAME; the next
/// open() that writes finishes what a killed process left there. After a power failure, rows that were
/// written since the last flush() are unspecified in either case.
class RowCache {
 public:
  /// @param table its descriptor is duplicated; the caller may close it
  /// @param options `writes` must be none; open() makes caches that write
  /// @throws ShapeError for an impossible shape, rows of no bytes or a depth out of range; OptionError if the
  /// bytes do not suffice for twelve rows; MemoryError if they are not available; FileError as FileRows
  RowCache(const FileTable& table, const RowCacheOptions& options);
  /// Opens an array in a file, as open_array() does. A file has one RowCache that writes at a time, and no
  /// other writer meanwhile.
  /// @throws NpyError, SafetensorsError as open_array(); ShapeError for a scalar, and otherwise as above;
  /// FileError also if another RowCache writes to the file, if its journal cannot be used, or if a writer was
  /// killed and `writes` is none: then rows may be halves
  static std::unique_ptr<RowCache> open(const std::string& path, const RowCacheOptions& options);
  /// Writes back what is not in the file yet. If that fails, a warning (TORCH_WARN) says so; flush() throws.
  ~RowCache();
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  /// out[i, ...] = row index[i] of the file. Operands and errors are those of FileRows::gather(); also
  /// rethrows what the prefetch of this batch threw.
  void gather(const at::Tensor& index, at::Tensor& out);

  /// Starts to read the rows of `index` (as for gather()) that the cache lacks, on the cache's thread, and
  /// returns. The calling thread's next gather() takes them instead of reading them. Their memory, one copy
  /// of each row, is freed then. A further prefetch() before that gather() replaces the first.
  /// @throws IndexError, ShapeError, PlacementError; ThreadError if the thread cannot be started; OrderError
  /// in a forked child
  void prefetch(const at::Tensor& index);

  /// Row index[i] = values[i, ...]. `values` has n rows of row_bytes bytes, of any dtype. If the index names
  /// a row several times, the last of its values stays.
  /// @throws OptionError without `writes`; IndexError, ShapeError and PlacementError before anything is
  /// written; FileError if the file was shrunk or a write fails. A part of the values is written then, and
  /// with `back` no earlier write is lost: the cache still has it.
  void scatter(const at::Tensor& index, const at::Tensor& values);

  /// Waits until all finished writes are on the disk. Does not cover rows that other threads write meanwhile.
  /// @throws FileError with the system's message
  void flush();

  [[nodiscard]] RowCacheStatistics statistics() const;

  /// The table's shape, and the dtype of its elements; of a FileTable [rows, row_bytes] and Byte.
  [[nodiscard]] at::IntArrayRef shape() const { return shape_; }
  [[nodiscard]] at::ScalarType dtype() const { return dtype_; }

 private:
  class Work;
  RowCache(std::unique_ptr<Work> work, std::vector<std::int64_t> shape, at::ScalarType dtype);
  std::vector<std::int64_t> shape_;
  at::ScalarType dtype_ = at::kByte;
  std::unique_ptr<Work> work_;
};

}  // namespace speedtorch
