/// The memory of a process as the kernel counts it, read from outside so that reading does not change it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "speedtorch/system/system_files.h"

namespace stbench::harness {

/// Bytes; nullopt for what the kernel does not report.
struct ProcessMemory {
  std::int64_t resident = 0;           ///< its pages that are in memory, shared ones included
  std::optional<std::int64_t> peak;    ///< the most that was resident since it began, or since reset_peak()
  std::optional<std::int64_t> locked;  ///< cannot be moved out of memory: mlocked, or pinned by a driver
  std::optional<std::int64_t> page_tables;  ///< the kernel's page tables, not part of `resident`
  std::optional<std::int64_t> shared;       ///< of the resident pages those of files and of shared memory
  std::int64_t huge = 0;                    ///< of the resident pages those that are mapped as huge ones
};

/// Reads `smaps_rollup`, which is exact, and `status` from /proc. Without `smaps_rollup` it uses VmRSS, whose
/// counters lag by some pages.
/// @throws std::runtime_error if there is no such process
ProcessMemory read_process_memory(const speedtorch::SystemFiles& files, pid_t process);

/// Resets the process's peak to its resident memory. False if the kernel refuses.
bool reset_peak(pid_t process);

/// Makes this process the first that the kernel kills if memory runs out. False if the kernel refuses.
bool end_first_for_memory(pid_t process);

/// Returns how many processes the kernel has killed for lack of memory; 0 if it does not count them.
std::int64_t out_of_memory_kills(const speedtorch::SystemFiles& files);

}  // namespace stbench::harness
