/// The resources of this machine that the process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stbench::harness {

/// The caches of one level of the CPUs that the process may use.
struct Cache {
  int level = 0;           ///< 1 is nearest to a core; data and unified caches only
  std::int64_t bytes = 0;  ///< of one
  int count = 0;
};

struct Machine {
  std::string cpu_model;   ///< its name; empty if unknown
  std::string cpu_design;  ///< speedtorch::processor_design(); empty if unknown
  int sockets = 1;         ///< of the machine; the next four lines count what the process's affinity allows
  std::vector<int>
      allowed_cpus;  ///< one hardware thread of each physical core first, then the siblings; hwloc's order
  int physical_cores = 1;
  bool smt = false;           ///< some allowed core has several hardware threads
  std::vector<Cache> caches;  ///< by level
  int allowed_cores =
      1;  ///< how many threads may run: allowed_cpus, or the cgroup's quota of CPU time rounded up
  int numa_nodes = 1;
  std::int64_t last_level_cache_bytes = 0;  ///< all of the last level together; 0 if unknown
  std::int64_t memory_total = 0;            ///< of the machine, or the cgroup's limit if that is smaller
  std::int64_t memory_available = 0;        ///< without swapping; below the cgroup's limit
  double clock_step_s = 0;                  ///< the smallest step of the steady clock that was seen
};

/// Reads the machine. Call it before threads are pinned: it sees the caller's affinity.
/// @param root of the kernel's files (/proc, /sys); tests replace it
Machine read_machine(const std::filesystem::path& root = "/");

}  // namespace stbench::harness
