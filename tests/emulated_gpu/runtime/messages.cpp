#include "tests/emulated_gpu/runtime/messages.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace emulated_gpu {

void say(const std::string& line) {
  const std::string whole = "emulated GPU: " + line + "\n";
  std::fflush(stdout);
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

void refuse(const std::string& line) {
  say(line);
  ::_exit(2);
}

std::string hex(unsigned long long value) {
  std::ostringstream digits;
  digits << "0x" << std::hex << value;
  return digits.str();
}

}  // namespace emulated_gpu
