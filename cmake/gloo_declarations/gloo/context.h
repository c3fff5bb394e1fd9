/// The declarations of Gloo that LibTorch's ProcessGroupGloo.hpp names. LibTorch contains Gloo, and its
/// packages leave out Gloo's headers. Where these are installed, they are used instead.
///
/// The library makes a ProcessGroupGloo and uses it through c10d::Backend. So it needs the names of Gloo's
/// classes and pointers to their objects; it never calls these functions or makes such an object itself.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
