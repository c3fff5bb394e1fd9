/// LibTorch's errors as a user needs them.
#pragma once

#include <c10/util/Exception.h>

#include <stdexcept>

namespace stbench {

/// Returns the result of `action`. LibTorch's errors carry a stack trace with the folders of this machine;
/// their first lines are what a user needs. \throws std::runtime_error in place of a c10::Error.
template <class Action>
auto plainly(Action action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

}  // namespace stbench
