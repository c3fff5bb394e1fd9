/// The library's typed errors, beside those of the kernels (IndexError, ShapeError, CudaError).
#pragma once

#include <string>
#include <utility>

#include "speedtorch/kernels/error.h"

namespace speedtorch {

/// Memory of this kind is not available. what() says how much was asked for and what the system answered.
struct MemoryError : Error {
  using Error::Error;
};

/// A limit of the system is below what was asked for. The library checks the limits before it allocates.
class LimitError : public MemoryError {
 public:
  /// @param what the memory that was asked for, as in "hugepage memory"
  /// @param limit the limit that is too low, as in "RLIMIT_AS (ulimit -v)"
  LimitError(const std::string& what, std::int64_t asked, std::int64_t free, const std::string& limit)
      : MemoryError("cannot allocate " + std::to_string(asked) + " bytes of " + what + ": " +
                    std::to_string(free) + " bytes are free; the limit is " + limit),
        asked_(asked),
        free_(free),
        limit_(limit) {}

  [[nodiscard]] std::int64_t asked() const { return asked_; }  ///< bytes
  [[nodiscard]] std::int64_t free() const { return free_; }    ///< bytes that the limit leaves
  [[nodiscard]] const std::string& limit() const { return limit_; }

 private:
  std::int64_t asked_;
  std::int64_t free_;
  std::string limit_;
};

/// The system starts no more threads. what() names the thread's purpose and the limits that may be the cause.
struct ThreadError : Error {
  using Error::Error;
};

/// A fill with numbers that the table's dtype cannot hold, or with invalid numbers.
struct FillError : Error {
  using Error::Error;
};

/// The operation does not support these placements or devices.
struct PlacementError : Error {
  using Error::Error;
};

/// An unsupported optimizer or parameter: an unknown type, a parameter that the optimizer does not have, or
/// states of another shape or dtype.
struct OptimizerError : Error {
  using Error::Error;
};

/// Nothing has this name, or several things have it.
struct NameError : Error {
  using Error::Error;
};

/// This process may not use a shared table so: the table is another user's, is attached `read_only`, or is
/// written by its holder alone.
struct AccessError : Error {
  using Error::Error;
};

/// Another process that shares the table ended, does not answer in time, or has another version.
struct SharingError : Error {
  using Error::Error;
};

/// A file cannot be opened, created, mapped or flushed, or it has changed. The message names it without its
/// folder.
class FileError : public Error {
 public:
  explicit FileError(const std::string& what, int code = 0, std::string path = {})
      : Error(what), code_(code), path_(std::move(path)) {}

  [[nodiscard]] int code() const { return code_; }  ///< the system's error number (errno); 0 without one
  /// The path as it was given; empty if only the open file is known.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int code_;
  std::string path_;
};

/// A group of processes cannot be made, or has lost a rank, or a rank did not answer in time. what() names
/// this rank, the network interface, the address and port, and the time-out. The group cannot be used again.
struct GroupError : Error {
  using Error::Error;
};

/// Ranks of a group differ in what must be the same on each. what() names two ranks and the values of both.
struct DisagreementError : Error {
  using Error::Error;
};

/// Another rank of a group refused its part of an operation, which therefore did nothing on any rank. what()
/// names that rank and holds its message. The group stays usable.
class RankError : public Error {
 public:
  RankError(int rank, const std::string& what)
      : Error("rank " + std::to_string(rank) + ": " + what), rank_(rank) {}

  [[nodiscard]] int rank() const { return rank_; }

 private:
  int rank_;
};

/// Autograd cannot record this write or movement, and would compute wrong gradients.
struct AutogradError : Error {
  using Error::Error;
};

/// The library cannot write to the memory of a lazy tensor: a `conj()`, a negation or zeros that LibTorch has
/// not computed yet.
struct LazyTensorError : Error {
  using Error::Error;
};

/// An index names a row twice where each row may be named once.
class DuplicateError : public Error {
 public:
  /// `more` is appended to the message.
  DuplicateError(std::int64_t row, std::int64_t first, std::int64_t second, const std::string& more = {})
      : Error("row " + std::to_string(row) + " is named at positions " + std::to_string(first) + " and " +
              std::to_string(second) + "; each row may be named once" + more),
        row_(row),
        first_(first),
        second_(second) {}

  [[nodiscard]] std::int64_t row() const { return row_; }
  [[nodiscard]] std::int64_t first() const { return first_; }    ///< position of its first occurrence
  [[nodiscard]] std::int64_t second() const { return second_; }  ///< position of its second occurrence

 private:
  std::int64_t row_;
  std::int64_t first_;
  std::int64_t second_;
};

/// A call out of order: before the call that it depends on, or with other rows than that call.
struct OrderError : Error {
  using Error::Error;
};

}  // namespace speedtorch
