/// The device of tests that run on the host and, once more, on a GPU.
#pragma once

#include <ATen/core/TensorBase.h>

#include <cstdlib>

namespace speedtorch::test {

/// The host, or the device in SPEEDTORCH_TEST_DEVICE (tests/emulated_gpu/CMakeLists.txt).
inline at::Device test_device() {
  const char* const name = std::getenv("SPEEDTORCH_TEST_DEVICE");
  return name == nullptr ? at::Device(at::kCPU) : at::Device(name);
}

}  // namespace speedtorch::test
