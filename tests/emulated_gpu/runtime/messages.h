// Lines on stderr, each as one write, so that those of several threads do not mix.
#pragma once
#include <sstream>
#include <string>

namespace emulated_gpu {

/// Joins anything that a stream can print.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream joined;
  (joined << ... << parts);
  return joined.str();
}

/// Prints "emulated GPU: " and the line.
void say(const std::string& line);

/// Prints the line and ends the process with status 2, without running destructors: there is no other way to
/// refuse.
[[noreturn]] void refuse(const std::string& line);

/// Returns an address as the messages write it: 0x7f0012.
std::string hex(unsigned long long value);

}  // namespace emulated_gpu
