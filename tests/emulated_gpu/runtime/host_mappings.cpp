#include "tests/emulated_gpu/runtime/host_mappings.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "tests/emulated_gpu/runtime/messages.h"

namespace emulated_gpu {

std::string host_memory_problem(std::uint64_t begin, std::uint64_t end, bool writable) {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t next = begin;  // all before it is mapped
  for (std::string line; next < end && std::getline(maps, line);) {
    std::uint64_t low = 0, high = 0;
    std::array<char, 5> rights{};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &low, &high, rights.data()) != 3) continue;
    if (high <= next) continue;
    if (low > next) break;
    if (rights[0] != 'r') return text(hex(next), " cannot be read");
    if (writable && rights[1] != 'w')
      return text(hex(next), " cannot be written, and cudaHostRegisterReadOnly is not set");
    next = high;
  }
  return next < end ? text(hex(next), " is not mapped") : std::string();
}

}  // namespace emulated_gpu
