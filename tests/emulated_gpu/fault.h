/// A device fault: what ends a launch, and what the runtime then returns from every call.
#pragma once

#include <stdexcept>
#include <string>

namespace emulated_gpu {

struct Fault : std::runtime_error {
  Fault(int error_code, const std::string& what) : std::runtime_error(what), code(error_code) {}
  int code;  ///< the cudaError: 700 illegal address, 716 misaligned, 719 launch failure, 710 assertion
};

}  // namespace emulated_gpu
