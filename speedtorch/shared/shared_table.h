/// One copy of a table for all processes of a node. docs/scale.md shows it whole.
#pragma once

#include <ATen/core/Tensor.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "speedtorch/files/mapped_file.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/row_index.h"
#include "speedtorch/tables/table.h"

namespace speedtorch {

/// The processes that may scatter into a shared table.
enum class Writers {
  holder,     ///< the process that holds it, and no other, nor a child that it forks
  row_locks,  ///< each process that attached it `read_write`, under locks on the rows, and their forked
              ///< children
};

struct HoldOptions {
  Writers writers = Writers::holder;
  std::chrono::milliseconds lock_timeout{10'000};  ///< for a row's lock; 0 to 10^9 ms
};

struct AttachOptions {
  Access access = Access::read_only;
  /// For the holder to appear, and (1 s at least) to answer; 0 asks once, and at most 10^9 ms.
  std::chrono::milliseconds timeout{10'000};
  std::chrono::milliseconds lock_timeout{10'000};  ///< for a row's lock; 0 to 10^9 ms
  std::optional<at::ScalarType> dtype = {};        ///< that the table must have
  std::vector<std::int64_t> sizes = {};            ///< that the table must have; empty: any
};

/// A table that one process holds under a name, and that other processes of its user and machine attach. All
/// map the same memory: `gather_rows(shared.table(), ...)` is as fast as from a table of the process's own.
///
/// A handle: copies refer to the same table. The name is free once the last handle of the holder has gone, or
/// its process has ended, in whatever way. Processes that have attached the table keep it after that, with
/// its rows and locks. The memory is freed once the last process that maps it has ended. Then no memory,
/// socket or unnamed file is left. Forked children of all these processes have the table too; a child of the
/// holder does not answer for it.
///
/// A gather takes no lock. A row that another process writes meanwhile may be a mix of old and new. If
/// scatters run at once under row locks, each row gets one of the values as a whole, or with
/// `accumulate` all of them are added. If a writer is killed, the row that it was writing stays mixed until
/// its lock is taken again, by a scatter or by finish_rows(); the row is whole then.
///
/// Several threads may use one object.
class SharedTable {
 public:
  /// Offers a table to other processes, and answers them on another thread. Fill the table first. Writes
  /// through `table` itself and its tensors stay possible, and take no locks. Processes that attached it
  /// `read_write` under an earlier hold can still write.
  /// @param table `pageable` or `hugepage` with TableOptions::shared, or `mapped`, of 1 to 32 dimensions
  /// @throws OptionError unless the name has 1 to 80 bytes without control characters; NameError if a process
  /// of this user holds a table of this name; PlacementError for memory that cannot be shared; FileError for
  /// row locks and a file that is open `read_only`, or if the system does not open the memory for reading;
  /// AccessError for row locks and a table that is shared already and that this process may not write;
  /// ShapeError for more dimensions; MemoryError; SharingError if the system gives no socket; ThreadError
  static SharedTable hold(const std::string& name, const Table& table, const HoldOptions& options = {});

  /// Maps the table that another process, or this one, holds under the name. Waits until it is held.
  /// @throws OptionError for an impossible name or time-out; NameError if no process of this user holds it in
  /// time; SharingError if its holder ends, does not answer or has another version of the library; ShapeError
  /// naming both if dtype or sizes are not those that `options` demands; AccessError for `read_write` if the
  /// holder alone writes, or if another user's process has taken the name; MemoryError if the address space
  /// is too small; FileError if the memory is shorter than the table
  static SharedTable attach(const std::string& name, const AttachOptions& options = {});

  /// The rows, for gather_rows() (speedtorch/tables/table_rows.h) and all that reads tables. A function that
  /// writes refuses it (AccessError) unless this process is the holder and the only writer. The tensor
  /// of a table that is attached `read_only` is refused too (FileError); LibTorch's own writes end the
  /// process.
  [[nodiscard]] const Table& table() const;
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] Writers writers() const;
  [[nodiscard]] Access access() const;  ///< whether this process may scatter
  /// The process that held the table when it was attached. It may have ended.
  [[nodiscard]] pid_t holder() const;

  /// table[index[i]] = values[i] by the table's policy, as scatter_rows() (speedtorch/rows/duplicates.h).
  /// `index` and `values` may be on any device. With row locks `none` is as `last`, each row is locked by
  /// itself, and others see part of the rows before the call returns.
  /// @throws AccessError if this process may not write; SharingError, after part of the rows are written, if
  /// another process keeps a lock for longer than the time-out; as scatter_rows()
  void scatter(const RowIndex& index, const at::Tensor& values,
               Duplicates duplicates = Duplicates::last) const;

  /// Finishes the rows that killed writers were writing, and returns their number; 0 if the holder alone
  /// writes.
  /// @throws AccessError, SharingError as scatter()
  [[nodiscard]] std::int64_t finish_rows() const;

  /// Waits until the writes to a `mapped` table are on the disk; does nothing for other tables.
  /// @throws FileError with the system's message; the writes may then be lost
  void flush() const;

 private:
  struct State;
  explicit SharedTable(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace speedtorch
