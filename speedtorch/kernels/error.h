/// The library's typed errors. C++17, so that CUDA sources can include it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace speedtorch {

/// The base of all errors of the library.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An index is outside of the table. On the host it is thrown before anything is written; for a CUDA call it
/// is reported afterwards.
class IndexError : public Error {
 public:
  /// `more` is appended to the message.
  IndexError(std::int64_t position, std::int64_t index, std::int64_t rows, const std::string& more = {})
      : Error("index " + std::to_string(index) + " at position " + std::to_string(position) +
              " names no row: " +
              (rows > 0 ? "the table's rows are 0 to " + std::to_string(rows - 1) : "the table has no rows") +
              more),
        position_(position),
        index_(index),
        rows_(rows) {}

  std::int64_t position() const { return position_; }  ///< of the first bad index
  std::int64_t index() const { return index_; }        ///< its value
  std::int64_t rows() const { return rows_; }          ///< of the table; valid indices are 0 to rows - 1

 private:
  std::int64_t position_;
  std::int64_t index_;
  std::int64_t rows_;
};

/// Two shapes that do not fit together, or an impossible one. what() names the values.
struct ShapeError : Error {
  using Error::Error;
};

/// An option out of range. what() names the option, its value and what would be right.
struct OptionError : Error {
  using Error::Error;
};

/// An instruction set that this program was not compiled for, or that this processor lacks.
struct IsaError : Error {
  using Error::Error;
};

/// A plan of row movements that cannot be used, or a file of one that cannot be read. what() names what is
/// wrong with it.
struct RowPlanError : Error {
  using Error::Error;
};

/// A call of the CUDA runtime failed.
class CudaError : public Error {
 public:
  /// `call` as written in the source; `name` and `text` as the runtime gives them ("cudaErrorNoDevice", ...).
  CudaError(const std::string& call, const std::string& name, const std::string& text)
      : Error(call + " failed: " + name + " (" + text + ")"), name_(name) {}

  const std::string& name() const { return name_; }  ///< of the error, such as "cudaErrorNoDevice"

 private:
  std::string name_;
};

}  // namespace speedtorch
