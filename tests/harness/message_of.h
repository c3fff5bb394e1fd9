/// What a call threw, as text.
#pragma once

#include <string>

#include "harness/errors.h"

namespace stbench::test {

/// The message of the error of that kind that the call throws, or a text that matches no expectation.
template <class Error = UsageError, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace stbench::test
