/// The message of an expected exception.
#pragma once

#include <string>

namespace speedtorch {

/// Returns the message of the Refusal that `act` throws.
template <class Refusal, class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const Refusal& error) {
    return error.what();
  }
  return "nothing was refused";
}

}  // namespace speedtorch
