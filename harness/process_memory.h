/// What a process takes of the memory, as the kernel counts it. Seen from outside, so that looking changes
/// nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "speedtorch/system/system_files.h"

namespace stbench::harness {

/// Bytes. What the kernel does not tell is empty.
struct ProcessMemory {
  std::int64_t resident = 0;           ///< its pages that are in memory, shared ones included
  std::optional<std::int64_t> peak;    ///< the most that was resident since it began, or since reset_peak()
  std::optional<std::int64_t> locked;  ///< cannot be moved out of memory: mlocked, or pinned by a driver
  std::optional<std::int64_t> page_tables;  ///< the kernel's tables of its pages, which `resident` has not
  std::optional<std::int64_t> shared;       ///< of the resident pages those of files and of shared memory
  std::int64_t huge = 0;                    ///< of the resident pages those that are mapped as huge ones
};

/// The process as /proc has it: `smaps_rollup`, which is exact (VmRSS, which it takes where there is none, is
/// put together from counters that lag some pages behind), and `status`.
/// @throws std::runtime_error where there is no such process
ProcessMemory read_process_memory(const speedtorch::SystemFiles& files, pid_t process);

/// Lets the process's peak begin anew at what is resident now. False where the kernel refuses.
bool reset_peak(pid_t process);

/// Should the memory run out, the kernel is to end this process before any other. False where it refuses.
bool end_first_for_memory(pid_t process);

/// How many processes this machine has ended for want of memory; 0 where the kernel does not count them.
std::int64_t out_of_memory_kills(const speedtorch::SystemFiles& files);

}  // namespace stbench::harness
