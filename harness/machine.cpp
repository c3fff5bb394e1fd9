#include "harness/machine.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "speedtorch/system/cgroup.h"
#include "speedtorch/system/system_files.h"

namespace stbench::harness {
namespace {

using Topology =
    std::unique_ptr<hwloc_topology, decltype([](auto* topology) { hwloc_topology_destroy(topology); })>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype([](auto* bitmap) { hwloc_bitmap_free(bitmap); })>;

Topology load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw std::runtime_error("hwloc cannot be initialised");
  Topology owned(topology);
  if (hwloc_topology_load(topology) != 0)
    throw std::runtime_error("hwloc cannot read this machine's topology");
  return owned;
}

/// The hardware threads that the calling thread may run on.
Bitmap read_affinity(hwloc_topology_t topology) {
  Bitmap allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology));
  }
  return allowed;
}

/// The allowed hardware threads of each core that has any. Some virtual machines tell of no cores: then each
/// hardware thread counts as one.
std::vector<std::vector<int>> threads_by_core(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  std::vector<std::vector<int>> cores;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU, core)) !=
         nullptr) {
    std::vector<int> threads;
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
      if (hwloc_bitmap_isset(allowed, static_cast<unsigned>(cpu)) != 0) threads.push_back(cpu);
    }
    if (!threads.empty()) cores.push_back(threads);
  }
  return cores;
}

std::vector<int> cores_first(const std::vector<std::vector<int>>& cores) {
  std::vector<int> order;
  std::size_t found = 1;
  for (std::size_t sibling = 0; found > 0; ++sibling) {
    found = 0;
    for (const auto& threads : cores) {
      if (sibling >= threads.size()) continue;
      order.push_back(threads[sibling]);
      ++found;
    }
  }
  return order;
}

std::vector<Cache> read_caches(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  std::vector<Cache> caches;
  for (int level = 1; level <= 5; ++level) {
    Cache cache{level, 0, 0};
    hwloc_obj_t object = nullptr;
    const int depth =
        hwloc_get_cache_type_depth(topology, static_cast<unsigned>(level), HWLOC_OBJ_CACHE_DATA);
    while (depth >= 0 && (object = hwloc_get_next_obj_by_depth(topology, depth, object)) != nullptr) {
      if (hwloc_bitmap_intersects(object->cpuset, allowed) == 0) continue;
      cache.bytes = std::max(cache.bytes, static_cast<std::int64_t>(object->attr->cache.size));
      ++cache.count;
    }
    if (cache.bytes > 0) caches.push_back(cache);
  }
  return caches;
}

std::string read_cpu_model(hwloc_topology_t topology, const speedtorch::SystemFiles& files) {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char* model = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUModel");
  return model != nullptr ? model : files.value("/proc/cpuinfo", "model name").value_or("");
}

/// Back-to-back readings of the clock: the smallest difference that is none is its step, or its cost where
/// that is more.
double measure_clock_step() {
  using Clock = std::chrono::steady_clock;
  constexpr int kReadings = 2000;
  Clock::duration least = Clock::duration::max();
  Clock::time_point last = Clock::now();
  for (int reading = 0; reading < kReadings || least == Clock::duration::max(); ++reading) {
    const Clock::time_point now = Clock::now();
    if (now != last) least = std::min(least, now - last);
    last = now;
  }
  return std::chrono::duration<double>(least).count();
}

void read_processors(Machine& machine, const speedtorch::SystemFiles& files) {
  const Topology topology = load_topology();
  const Bitmap allowed = read_affinity(topology.get());
  const auto cores = threads_by_core(topology.get(), allowed.get());
  machine.cpu_model = read_cpu_model(topology.get(), files);
  machine.cpu_design = speedtorch::processor_design(files).value_or("");
  machine.sockets = std::max(1, hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PACKAGE));
  machine.numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE));
  machine.allowed_cpus = cores_first(cores);
  machine.physical_cores = static_cast<int>(cores.size());
  machine.smt = std::ranges::any_of(cores, [](const auto& threads) { return threads.size() > 1; });
  machine.caches = read_caches(topology.get(), allowed.get());
  if (!machine.caches.empty()) {
    machine.last_level_cache_bytes = machine.caches.back().bytes * machine.caches.back().count;
  }
}

void read_memory(Machine& machine, const speedtorch::SystemFiles& files,
                 const speedtorch::CgroupLimits& limits) {
  machine.memory_total = files.bytes("/proc/meminfo", "MemTotal").value_or(0);
  machine.memory_available = files.bytes("/proc/meminfo", "MemAvailable").value_or(machine.memory_total);
  if (limits.memory) machine.memory_total = std::min(machine.memory_total, *limits.memory);
  if (limits.memory_available) {
    machine.memory_available = std::min(machine.memory_available, *limits.memory_available);
  }
}

}  // namespace

Machine read_machine(const std::filesystem::path& root) {
  const speedtorch::SystemFiles files(root);
  const speedtorch::CgroupLimits limits = speedtorch::read_cgroup_limits(files);
  Machine machine;
  read_processors(machine, files);
  machine.allowed_cores = std::max(1, static_cast<int>(machine.allowed_cpus.size()));
  if (limits.cpus) {
    const double quota = std::max(1.0, std::ceil(*limits.cpus));
    if (quota < machine.allowed_cores) machine.allowed_cores = static_cast<int>(quota);
  }
  read_memory(machine, files, limits);
  machine.clock_step_s = measure_clock_step();
  return machine;
}

}  // namespace stbench::harness
