#include "speedtorch/system/limits.h"

#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>

#include "speedtorch/system/cgroup.h"

namespace speedtorch {
namespace {

constexpr const char* own_status = "/proc/self/status";

/// Returns nothing if the resource is unlimited.
std::optional<std::int64_t> resource_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return static_cast<std::int64_t>(
      std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<std::int64_t>::max()));
}

/// Adds a limit of this process, less what the line `used` of /proc/self/status says it has taken.
void add_resource(std::vector<Limit>& limits, const SystemFiles& files, __rlimit_resource resource,
                  const char* used, const char* name) {
  const auto limit = resource_limit(resource);
  if (!limit) return;
  const auto taken = files.bytes(own_status, used).value_or(0);
  limits.push_back({name, std::max<std::int64_t>(0, *limit - taken)});
}

/// With vm.overcommit_memory=2 the system promises no more than it has; otherwise it promises anything.
void add_commit_limit(std::vector<Limit>& limits, const SystemFiles& files) {
  if (files.number("/proc/sys/vm/overcommit_memory") != 2) return;
  const auto limit = files.bytes("/proc/meminfo", "CommitLimit");
  const auto promised = files.bytes("/proc/meminfo", "Committed_AS");
  if (limit && promised)
    limits.push_back(
        {"CommitLimit (vm.overcommit_memory is 2)", std::max<std::int64_t>(0, *limit - *promised)});
}

/// Adds the memory that is really there, of the machine and of the control group. Locked pages cannot be
/// swapped out.
void add_memory(std::vector<Limit>& limits, const SystemFiles& files, bool swappable) {
  const auto swap = swappable ? files.bytes("/proc/meminfo", "SwapFree").value_or(0) : 0;
  if (const auto available = files.bytes("/proc/meminfo", "MemAvailable")) {
    limits.push_back(
        {swap > 0 ? "the machine's memory and swap" : "the machine's memory", *available + swap});
  }
  const auto group = read_cgroup_limits(files);
  if (group.memory_available) {
    const auto group_swap = std::min(swap, group.swap_available.value_or(swap));
    limits.push_back({"the control group's memory (memory.max, in version 1 memory.limit_in_bytes)",
                      *group.memory_available + group_swap});
  }
}

bool may_lock_all(const SystemFiles& files) {
  const auto capabilities = files.value(own_status, "CapEff").value_or("");
  std::uint64_t bits = 0;
  std::from_chars(capabilities.data(), capabilities.data() + capabilities.size(), bits, 16);
  return (bits >> CAP_IPC_LOCK & 1) != 0;
}

void require(const std::string& what, std::int64_t bytes, const std::vector<Limit>& limits) {
  const auto tightest = std::ranges::min_element(limits, {}, &Limit::free);
  if (tightest != limits.end() && tightest->free < bytes)
    throw LimitError(what, bytes, tightest->free, tightest->name);
}

}  // namespace

std::vector<Limit> memory_limits(MemoryUse use, const SystemFiles& files) {
  std::vector<Limit> limits;
  if (use != MemoryUse::resident) add_resource(limits, files, RLIMIT_AS, "VmSize", "RLIMIT_AS (ulimit -v)");
  if (use == MemoryUse::anonymous || use == MemoryUse::locked)
    add_resource(limits, files, RLIMIT_DATA, "VmData", "RLIMIT_DATA (ulimit -d)");
  if (use != MemoryUse::file && use != MemoryUse::resident) add_commit_limit(limits, files);
  if (use != MemoryUse::file)
    add_memory(limits, files, use != MemoryUse::locked && use != MemoryUse::resident);
  std::ranges::stable_sort(limits, {}, &Limit::free);
  return limits;
}

void require_memory(const std::string& what, std::int64_t bytes, MemoryUse use, const SystemFiles& files) {
  require(what, bytes, memory_limits(use, files));
}

std::vector<Limit> locked_memory_limit(const SystemFiles& files) {
  std::vector<Limit> limits;
  if (!may_lock_all(files))
    add_resource(limits, files, RLIMIT_MEMLOCK, "VmLck", "RLIMIT_MEMLOCK (ulimit -l)");
  return limits;
}

void require_file_size(const std::string& what, std::int64_t bytes) {
  if (const auto limit = resource_limit(RLIMIT_FSIZE))
    require(what, bytes, {{"RLIMIT_FSIZE (ulimit -f)", *limit}});
}

std::vector<Limit> disk_limits(const std::string& folder, const SystemFiles& files) {
  std::vector<Limit> limits;
  if (const auto limit = resource_limit(RLIMIT_FSIZE)) limits.push_back({"RLIMIT_FSIZE (ulimit -f)", *limit});
  struct statvfs disk {};
  // If statvfs() fails, the call that creates the file will say why. A disk of no blocks has no such limit.
  if (::statvfs(folder.c_str(), &disk) == 0 && disk.f_blocks != 0) {
    const auto blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;  // some are reserved for root
    limits.push_back({"the space on the disk of its folder",
                      static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(disk.f_frsize)});
  }
  struct statfs kind {};
  if (::statfs(folder.c_str(), &kind) == 0 && kind.f_type == TMPFS_MAGIC)
    std::ranges::copy(memory_limits(MemoryUse::shared, files), std::back_inserter(limits));
  std::ranges::stable_sort(limits, {}, &Limit::free);
  return limits;
}

void require_disk(const std::string& what, const std::string& folder, std::int64_t bytes,
                  const SystemFiles& files) {
  require(what, bytes, disk_limits(folder, files));
}

}  // namespace speedtorch
