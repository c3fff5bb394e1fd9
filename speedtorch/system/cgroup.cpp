#include "speedtorch/system/cgroup.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace speedtorch {
namespace {

constexpr std::string_view kMount = "/sys/fs/cgroup";
/// Version 1 writes "no limit" as the largest multiple of a page. No machine has half of that.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 62;

template <class T>
void lower(std::optional<T>& least, std::optional<T> value) {
  if (value) least = std::min(least.value_or(*value), *value);
}

void lower_cpus(CgroupLimits& limits, std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (quota && period && *period > 0)
    lower(limits.cpus, std::optional(static_cast<double>(*quota) / static_cast<double>(*period)));
}

/// One line of /proc/self/cgroup: "4:memory:/a/b", and for version 2 "0::/a/b".
struct Membership {
  std::string controllers;
  std::string path;
};

std::vector<Membership> memberships(const SystemFiles& files) {
  std::vector<Membership> all;
  for (const std::string& line : files.lines("/proc/self/cgroup")) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    all.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return all;
}

bool controls(const Membership& membership, std::string_view controller) {
  std::istringstream names(membership.controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

/// The folders of a group and of all groups above it; the mount itself comes last. In a container the path
/// may be the host's and missing below the mount: then the mount is the group.
std::vector<std::string> folders(const std::string& mount, std::string path) {
  std::vector<std::string> all;
  for (; path.size() > 1; path.resize(path.rfind('/'))) all.push_back(mount + path);
  all.push_back(mount);
  return all;
}

std::optional<std::int64_t> left(std::int64_t limit, std::int64_t used) {
  return std::max<std::int64_t>(0, limit - used);
}

/// The group's page cache. The kernel reclaims it before it kills a process.
std::int64_t page_cache(const SystemFiles& files, const std::string& folder, const std::string& prefix) {
  std::int64_t bytes = 0;
  for (const char* list : {"inactive_file", "active_file"})
    bytes += files.bytes(folder + "/memory.stat", prefix + list).value_or(0);
  return bytes;
}

void read_v2(const SystemFiles& files, const std::string& folder, CgroupLimits& limits) {
  std::istringstream cpu(files.first_line(folder + "/cpu.max").value_or("max"));
  std::string quota_text, period_text;
  cpu >> quota_text >> period_text;
  lower_cpus(limits, leading_number(quota_text), leading_number(period_text));
  if (const auto limit = files.number(folder + "/memory.swap.max")) {
    lower(limits.swap_available, left(*limit, files.number(folder + "/memory.swap.current").value_or(0)));
  }
  const auto limit = files.number(folder + "/memory.max");
  if (!limit) return;
  lower(limits.memory, limit);
  const std::int64_t used = files.number(folder + "/memory.current").value_or(0);
  lower(limits.memory_available, left(*limit, used - page_cache(files, folder, "")));
}

void read_v1_cpu(const SystemFiles& files, const std::string& folder, CgroupLimits& limits) {
  lower_cpus(limits, files.number(folder + "/cpu.cfs_quota_us"), files.number(folder + "/cpu.cfs_period_us"));
}

void read_v1_memory(const SystemFiles& files, const std::string& folder, CgroupLimits& limits) {
  const auto limit = files.number(folder + "/memory.limit_in_bytes");
  if (!limit || *limit >= kNoLimit) return;
  lower(limits.memory, limit);
  const std::int64_t cache = page_cache(files, folder, "total_");
  const auto memory = left(*limit, files.number(folder + "/memory.usage_in_bytes").value_or(0) - cache);
  lower(limits.memory_available, memory);
  const auto with_swap = files.number(folder + "/memory.memsw.limit_in_bytes");
  if (!with_swap || *with_swap >= kNoLimit) return;
  const auto both =
      left(*with_swap, files.number(folder + "/memory.memsw.usage_in_bytes").value_or(0) - cache);
  lower(limits.swap_available, left(*both, *memory));
}

template <class Read>
void read_each(const SystemFiles& files, const std::vector<std::string>& mounts, const std::string& path,
               CgroupLimits& limits, Read read) {
  for (const std::string& mount : mounts) {
    for (const std::string& folder : folders(mount, path)) read(files, folder, limits);
  }
}

}  // namespace

CgroupLimits read_cgroup_limits(const SystemFiles& files) {
  const std::string mount(kMount);
  CgroupLimits limits;
  for (const Membership& membership : memberships(files)) {
    // Version 2 may be mounted beside version 1, as "unified". Version 1's controllers may be mounted
    // together.
    const std::string together = mount + "/" + membership.controllers;
    if (membership.controllers.empty()) {
      read_each(files, {mount, mount + "/unified"}, membership.path, limits, read_v2);
    }
    if (controls(membership, "cpu")) {
      read_each(files, {mount + "/cpu", together}, membership.path, limits, read_v1_cpu);
    }
    if (controls(membership, "memory")) {
      read_each(files, {mount + "/memory", together}, membership.path, limits, read_v1_memory);
    }
  }
  return limits;
}

}  // namespace speedtorch
