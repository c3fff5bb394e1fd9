/// Locks on the rows of a shared table, in memory that all its writers map.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "speedtorch/kernels/parallel.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/system/descriptor.h"

namespace speedtorch {

/// Robust mutexes shared between processes: of N, number k is for row k and every Nth row after it. The
/// kernel releases the mutex of a killed process and tells the next owner so. (Locks on files would need a
/// system call per row, end with the last copy of a descriptor instead of the process, and not report that
/// their owner was killed.)
///
/// A writer sets the new row beside its lock first, then says which row that is, then copies it to the table.
/// If it is killed, the next owner of the lock copies it again. So each row is its old or its new value, and
/// no mix, once its lock was taken again.
///
/// Each process has its own object; several threads may use it. A thread owns one lock at a time.
class RowLocks {
 public:
  /// The number of locks for such a table: a power of two up to 1,024, fewer if rows of their number would
  /// need more than 4 MiB, and no more than rows.
  static std::int64_t count_for(std::int64_t rows, std::int64_t row_bytes);

  /// Creates the locks of a table whose rows are contiguous. @throws MemoryError, FileError
  static std::unique_ptr<RowLocks> create(std::int64_t rows, std::int64_t row_bytes);

  /// Uses the locks that another process created. @throws MemoryError; FileError if the file is too short
  RowLocks(Descriptor file, std::int64_t count, std::int64_t row_bytes);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] int fd() const { return memory_->shared_fd(); }

  using SetRow = kernels::FunctionRef<void(std::byte* row)>;
  /// Locks a row, lets `set` write its new value, and copies that to the table.
  /// @param rows the table's first row as this process maps it
  /// @throws SharingError naming the owning thread if another owns the lock for longer than `timeout`
  void write(std::byte* rows, std::int64_t row, SetRow set, std::chrono::milliseconds timeout) const;

  /// Takes each lock once, and so finishes the rows that killed processes were writing. Returns their number.
  /// @throws SharingError as write()
  std::int64_t finish_all(std::byte* rows, std::chrono::milliseconds timeout) const;

 private:
  struct Lock;
  RowLocks(std::shared_ptr<Memory> memory, std::int64_t count, std::int64_t row_bytes);
  [[nodiscard]] Lock& lock(std::int64_t number) const;
  /// The place beside a lock for the new row of the writer that owns it.
  [[nodiscard]] std::byte* new_row(std::int64_t number) const;
  bool acquire(std::int64_t number, std::byte* rows, std::chrono::milliseconds timeout) const;
  void copy(std::int64_t number, std::byte* rows) const;

  std::shared_ptr<Memory> memory_;
  std::int64_t count_;
  std::int64_t row_bytes_;
};

}  // namespace speedtorch
