/// The errors of reports/.
#pragma once

#include <stdexcept>
#include <string>
#include <system_error>

namespace stbench::reports {

/// A report that cannot be read or written. what() names the file, the line or field, and what would be
/// right.
class ReportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A report of a schema that this program does not know: nothing is wrong with it, but it cannot be read.
class SchemaError : public ReportError {
 public:
  using ReportError::ReportError;
};

/// The system's words for an errno.
inline std::string system_reason(int error) { return std::generic_category().message(error); }

}  // namespace stbench::reports
