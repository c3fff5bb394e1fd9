#include "speedtorch/kernels/cache_size.h"

#include <fstream>
#include <string>

namespace speedtorch::kernels {
namespace {

/// Reads the kernel's own table, not sysconf: in virtual machines glibc may report the whole host's cache
/// (402 MB where a core reaches 32).
std::int64_t read_cache_bytes(int level_index) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level_index) + "/size");
  std::int64_t size = 0;
  char unit = ' ';
  if (!(file >> size)) return 0;
  file >> unit;
  return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size;
}

std::int64_t find_last_level() {
  for (int level_index = 4; level_index >= 2; --level_index) {
    if (const std::int64_t bytes = read_cache_bytes(level_index); bytes > 0) return bytes;
  }
  return std::int64_t{32} << 20;
}

}  // namespace

std::int64_t last_level_cache_bytes() {
  static const std::int64_t bytes = find_last_level();
  return bytes;
}

}  // namespace speedtorch::kernels
