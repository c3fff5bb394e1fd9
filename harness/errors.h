/// The errors that a user can cause and correct.
#pragma once

#include <stdexcept>

namespace stbench {

/// What the user asked for cannot be done as asked. what() is one to three lines: the thing, the value, what
/// is right.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stbench
