/// Writes rows into a table in a file. No tensors. For the library's own files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "speedtorch/files/file_reads.h"
#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// A row of a table and its bytes.
struct RowBytes {
  std::int64_t row;
  const std::byte* bytes;
};

/// Not thread-safe. The descriptors must stay open.
class FileRowWriter {
 public:
  /// @param table its descriptor is open for writing
  /// @param name of the file, for messages
  FileRowWriter(const FileTable& table, std::string name);

  /// Writes the rows through the page cache, neighbours in one call. Never makes the file longer.
  /// @param rows ascending and distinct
  /// @throws FileError if the file was shrunk or a write fails; then a part of the rows is written
  void write(std::span<const RowBytes> rows) const;

  /// Waits until what was written is on the disk. @throws FileError
  void sync() const;

 private:
  void check_size() const;
  void announce(std::int64_t row) const;

  FileTable table_;
  std::string name_;
};

/// A file of rows that are about to be written into a table, so that a killed writer leaves each row wholly
/// old or wholly new: while rows are written, the journal has them all.
class RowJournal {
 public:
  /// Its file: `.NAME.journal` beside the table.
  static std::string path_of(const std::string& table_path);

  /// True if a writer was killed and rows of the table may be halves: they wait in the journal.
  static bool is_pending(const std::string& table_path, const FileTable& table);

  /// Finishes what a killed writer has left and removes its journal, if there is one.
  /// @returns the number of rows that it had @throws FileError
  static std::int64_t recover(const std::string& table_path, const FileTable& table);

  /// Creates the journal, or opens one without rows. @throws FileError
  RowJournal(const std::string& table_path, const FileTable& table);

  /// Stores rows. When it returns, recover() would write them. @throws FileError
  void store(std::span<const RowBytes> rows);
  /// Forgets them: they are in the table. @throws FileError
  void clear() const;
  /// Removes the file. For the end, after clear().
  void remove() const;

 private:
  FileTable table_;
  std::string path_, name_;
  Descriptor file_;
};

}  // namespace speedtorch
