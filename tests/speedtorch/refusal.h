/// What an act is refused with.
#pragma once

#include <string>

namespace speedtorch {

/// The message of the Refusal that `act` throws.
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
