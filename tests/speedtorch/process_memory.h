/// This process's memory and files, in the kernel's numbers.
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

/// False under AddressSanitizer, which keeps freed memory and allocates more than the program asks for.
inline bool memory_is_the_programs() { return !stbench::test::under_address_sanitizer(); }

/// Resident bytes, exact (/proc/self/status counts them in batches).
/// @throws std::bad_optional_access if the kernel does not say, so that no test compares two unknowns
inline std::int64_t resident_bytes() { return SystemFiles().bytes("/proc/self/smaps_rollup", "Rss").value(); }

/// Bytes of address space.
inline std::int64_t mapped_bytes() { return SystemFiles().bytes("/proc/self/status", "VmSize").value(); }

/// The maximum of resident bytes since forget_peak().
inline std::int64_t peak_bytes() { return SystemFiles().bytes("/proc/self/status", "VmHWM").value(); }

/// @throws std::ios_base::failure if the kernel refuses
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
