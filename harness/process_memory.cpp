#include "harness/process_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace stbench::harness {
namespace {

/// The sum of those that are there; nothing if none is.
std::optional<std::int64_t> sum(const speedtorch::SystemFiles& files, const std::string& path,
                                std::initializer_list<const char*> keys) {
  std::optional<std::int64_t> total;
  for (const char* key : keys) {
    if (const auto bytes = files.bytes(path, key)) total = total.value_or(0) + *bytes;
  }
  return total;
}

bool write(pid_t process, const char* file, const char* text) {
  std::ofstream stream(fmt::format("/proc/{}/{}", process, file));
  stream << text << std::flush;
  return static_cast<bool>(stream);
}

}  // namespace

ProcessMemory read_process_memory(const speedtorch::SystemFiles& files, pid_t process) {
  const auto rollup = fmt::format("/proc/{}/smaps_rollup", process);
  const auto status = fmt::format("/proc/{}/status", process);
  auto resident = files.bytes(rollup, "Rss");
  if (!resident) resident = files.bytes(status, "VmRSS");
  if (!resident) throw std::runtime_error(fmt::format("/proc tells nothing of process {}", process));
  ProcessMemory memory;
  memory.resident = *resident;
  memory.peak = files.bytes(status, "VmHWM");
  if (memory.peak) *memory.peak = std::max(*memory.peak, memory.resident);  // its counters lag behind, too
  memory.locked = sum(files, status, {"VmLck", "VmPin"});
  memory.page_tables = files.bytes(status, "VmPTE");
  memory.shared = sum(files, status, {"RssFile", "RssShmem"});
  memory.huge = sum(files, rollup, {"AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"}).value_or(0);
  return memory;
}

bool reset_peak(pid_t process) { return write(process, "clear_refs", "5"); }

bool end_first_for_memory(pid_t process) { return write(process, "oom_score_adj", "1000"); }

std::int64_t out_of_memory_kills(const speedtorch::SystemFiles& files) {
  return files.bytes("/proc/vmstat", "oom_kill").value_or(0);
}

}  // namespace stbench::harness
