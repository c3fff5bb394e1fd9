/// What this process has of memory and of files, in numbers of the kernel.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "speedtorch/system/system_files.h"
#include "tests/address_sanitizer.h"

namespace speedtorch::test {

/// False under AddressSanitizer, which keeps freed memory and takes more beside what it gives.
inline bool memory_is_the_programs() { return !stbench::test::under_address_sanitizer(); }

/// Bytes in memory, exactly (what /proc/self/status says of it is counted in batches).
/// @throws std::bad_optional_access where the kernel does not say, so that no test compares two unknowns
inline std::int64_t resident_bytes() { return SystemFiles().bytes("/proc/self/smaps_rollup", "Rss").value(); }

/// Bytes of addresses.
inline std::int64_t mapped_bytes() { return SystemFiles().bytes("/proc/self/status", "VmSize").value(); }

/// The most bytes that were in memory since forget_peak().
inline std::int64_t peak_bytes() { return SystemFiles().bytes("/proc/self/status", "VmHWM").value(); }

/// @throws std::ios_base::failure where the kernel refuses
inline void forget_peak() {
  std::ofstream file;
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.open("/proc/self/clear_refs");
  file << 5 << std::flush;
}

inline std::int64_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

}  // namespace speedtorch::test
