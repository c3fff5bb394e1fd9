/// Writes rows through a RowCache to its file. For the library's own files.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/files/array_file.h"
#include "speedtorch/files/cache_slots.h"
#include "speedtorch/files/row_writer.h"

namespace speedtorch {

/// True if no RowCache writes to the file.
bool is_unlocked(int fd);

/// Thread-safe. Holds the file's lock for its lifetime.
class CacheWriter {
 public:
  /// Locks the file and finishes what a killed writer has left in its journal.
  /// @param path of the file @param back writes as CacheWrites::back, with a journal @throws FileError
  CacheWriter(const std::string& path, ArrayFile file, bool back);

  /// Writes rows as RowCache::scatter(), which has checked the operands.
  void scatter(CacheSlots& cache, const at::Tensor& index, const at::Tensor& values);
  /// As RowCache::flush().
  void flush(CacheSlots& cache);
  /// Writes back what is not in the file yet and removes the journal. A failure is a warning.
  void close(CacheSlots& cache);

  /// The number of rows that `back` has written.
  [[nodiscard]] std::int64_t written_back() const { return written_back_; }

 private:
  void write_through(CacheSlots& cache, const std::vector<RowBytes>& rows) const;
  template <class Index>
  void keep(CacheSlots& cache, const Index* rows, std::int64_t count, const std::byte* values);
  void write_back(CacheSlots& cache);

  ArrayFile file_;
  FileTable table_;
  FileRowWriter writer_;
  std::optional<RowJournal> journal_;  ///< of `back`
  std::atomic<std::int64_t> written_back_ = 0;
};

}  // namespace speedtorch
