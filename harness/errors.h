/// The errors that a user can cause and correct.
#pragma once

#include <stdexcept>

namespace stbench {

/// The user asked for something impossible. what() is one to three lines: the thing, the value, what would be
/// right.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stbench
