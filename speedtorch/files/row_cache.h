/// Keeps the hot rows of a table in a file in a given number of bytes of memory.
///
/// The system's page cache keeps 4 KiB for a row of 256 B. A RowCache keeps 256 B and 11 bytes of
/// bookkeeping. docs/row-cache.md has the details and figures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "speedtorch/files/file_rows.h"

namespace speedtorch {

struct RowCacheOptions {
  /// Memory for rows and their bookkeeping. A call takes memory besides: 4 bytes per look-up, a copy of each
  /// missed row, and FileRows' buffers.
  std::int64_t bytes = 0;
  FileRowsOptions reads;  ///< how missed rows are read
};

/// Counts since the cache was made. A look-up is one element of a gather's index.
struct RowCacheStatistics {
  std::int64_t hits = 0;        ///< look-ups of rows in the cache
  std::int64_t misses = 0;      ///< other look-ups
  std::int64_t reads = 0;       ///< rows that gathers and prefetches read from the file, each once per batch
  std::int64_t prefetched = 0;  ///< missed rows that a prefetch had read
  std::int64_t evictions = 0;   ///< rows that made room for others
  std::int64_t slots = 0;       ///< the number of rows that the cache can hold
  std::int64_t bytes = 0;       ///< the memory in use for rows and bookkeeping, at most the options' bytes

  /// hits / (hits + misses); 0 before the first look-up.
  [[nodiscard]] double hit_rate() const;
};

/// A gather copies the rows that the cache holds and reads the others from the file, all at once. Then a row
/// replaces a held one if it was looked up more often (speedtorch/files/cache_sets.h).
///
/// Several threads may use one object at once: look-ups and reads run side by side. The work runs on
/// LibTorch's threads, as in gather_rows(). Do not use an object on both sides of a fork().
///
/// Writes to the file by others are not seen: the cache returns the rows that it has.
class RowCache {
 public:
  /// @param table its descriptor is duplicated; the caller may close it
  /// @throws ShapeError for an impossible shape, rows of no bytes or a depth out of range; OptionError if the
  /// bytes do not suffice for twelve rows; MemoryError if they are not available; FileError as FileRows
  RowCache(const FileTable& table, const RowCacheOptions& options);
  ~RowCache();
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  /// out[i, ...] = row index[i] of the file. Operands and errors are those of FileRows::gather(); also
  /// rethrows what the prefetch of this batch threw.
  void gather(const at::Tensor& index, at::Tensor& out);

  /// Starts to read the rows of `index` (as for gather()) that the cache does not hold, on a thread of its
  /// own, and returns. The calling thread's next gather() takes them instead of reading them. Their memory,
  /// one copy of each row, is freed then. A further prefetch() before that gather() replaces the first.
  /// @throws IndexError, ShapeError, PlacementError; ThreadError if the thread cannot be started; OrderError
  /// in a forked child
  void prefetch(const at::Tensor& index);

  [[nodiscard]] RowCacheStatistics statistics() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace speedtorch
