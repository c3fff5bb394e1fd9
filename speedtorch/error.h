/// The library's typed errors, beside those of the kernels (IndexError, ShapeError, CudaError).
#pragma once

#include "speedtorch/kernels/error.h"

namespace speedtorch {

/// Memory of the asked kind cannot be had: how much was asked, what the system said.
class MemoryError : public Error {
 public:
  using Error::Error;
};

/// A limit of the system is below what was asked. It is found before anything is taken.
class LimitError : public MemoryError {
 public:
  /// @param what the memory that was asked for, as in "hugepage memory"
  /// @param limit what bites, as in "RLIMIT_AS (ulimit -v)"
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

/// The system starts no more threads. what() names what the thread was for and the limits that may be why.
class ThreadError : public Error {
 public:
  using Error::Error;
};

/// A fill whose numbers the table's dtype cannot hold, or that are none.
class FillError : public Error {
 public:
  using Error::Error;
};

/// The operation does not go between these placements or devices.
class PlacementError : public Error {
 public:
  using Error::Error;
};

/// An optimizer or a parameter that is not served: of an unknown kind, unknown to the other, or with states
/// that are not as they must be.
class OptimizerError : public Error {
 public:
  using Error::Error;
};

/// A name that nothing has, or more than one thing.
class NameError : public Error {
 public:
  using Error::Error;
};

/// A file cannot be opened, made, mapped or flushed, or is no longer what it was. Named without its folder.
class FileError : public Error {
 public:
  using Error::Error;
};

/// Autograd would have to know of a write, or of a movement, that it is not told of.
class AutogradError : public Error {
 public:
  using Error::Error;
};

/// A tensor is to be written through its memory, which does not hold its numbers: a `conj()`, a negation or
/// zeros that LibTorch has not computed yet.
class LazyTensorError : public Error {
 public:
  using Error::Error;
};

/// An index names a row twice where each row may be named once.
class DuplicateError : public Error {
 public:
  DuplicateError(std::int64_t row, std::int64_t first, std::int64_t second)
      : Error("row " + std::to_string(row) + " is named at positions " + std::to_string(first) + " and " +
              std::to_string(second) + "; each row may be named once (Duplicates::reject)"),
        row_(row),
        first_(first),
        second_(second) {}

  [[nodiscard]] std::int64_t row() const { return row_; }
  [[nodiscard]] std::int64_t first() const { return first_; }    ///< position of its first mention
  [[nodiscard]] std::int64_t second() const { return second_; }  ///< and of its second

 private:
  std::int64_t row_;
  std::int64_t first_;
  std::int64_t second_;
};

/// A call that is not due: before what it needs, or with other rows than those that it follows.
class OrderError : public Error {
 public:
  using Error::Error;
};

}  // namespace speedtorch
