/// What this process has of memory and of files, in numbers of the kernel.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "speedtorch/system_files.h"

namespace speedtorch::test {

/// False under AddressSanitizer, which keeps freed memory and takes more beside what it gives.
#ifdef __SANITIZE_ADDRESS__
constexpr bool memory_is_the_programs = false;
#else
constexpr bool memory_is_the_programs = true;
#endif

/// Bytes in memory, exactly (what /proc/self/status says of it is counted in batches).
inline std::int64_t resident_bytes() {
  return SystemFiles().bytes("/proc/self/smaps_rollup", "Rss").value_or(-1);
}

/// Bytes of addresses.
inline std::int64_t mapped_bytes() { return SystemFiles().bytes("/proc/self/status", "VmSize").value_or(-1); }

/// The most bytes that were in memory since forget_peak().
inline std::int64_t peak_bytes() { return SystemFiles().bytes("/proc/self/status", "VmHWM").value_or(-1); }
inline void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

inline std::int64_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

}  // namespace speedtorch::test
