#include <fmt/format.h>

#include <algorithm>

#include "harness/doctor/checks.h"
#include "reports/style.h"
#include "speedtorch/system/cgroup.h"

namespace stbench::harness::doctor {
namespace {

using reports::bytes_text;

constexpr std::string_view kPages = "/sys/kernel/mm/transparent_hugepage";
constexpr std::string_view kMeminfo = "/proc/meminfo";

std::optional<std::string> chosen(const speedtorch::SystemFiles& files, std::string_view name) {
  return files.choice(fmt::format("{}/{}", kPages, name));
}

std::string set_pages(std::string_view value, std::string_view name) {
  return fmt::format("as root: echo {} > {}/{}", value, kPages, name);
}

Finding check_huge_pages(const Sources& sources) {
  constexpr const char* kRows =
      "hugepage: its tables lie in 4 KiB pages (pages_got says so), at half the speed";
  const auto mode = chosen(sources.files, "enabled");
  if (sources.files.value("/proc/self/status", "THP_enabled") == "0")
    return spoils("turned off for this process", kRows,
                  "start it from a program that does not turn them off (prctl)");
  if (!mode) return unknown("the kernel tells of no transparent huge pages");
  if (*mode == "never")
    return spoils("never: there are no huge pages", kRows, set_pages("madvise", "enabled"));
  if (*mode == "always")
    return note("always: every table may get huge pages",
                "libtorch: its tables get them too, and its rows are faster than elsewhere");
  return fine(*mode);
}

Finding check_huge_page_defrag(const Sources& sources) {
  const auto mode = chosen(sources.files, "defrag");
  if (!mode) return unknown("the kernel does not tell how it makes huge pages");
  if (*mode != "never" && *mode != "defer") return fine(*mode);
  return spoils(fmt::format("{}: no memory is put together for a huge page when it is asked for", *mode),
                "hugepage: a part of a table may lie in 4 KiB pages (pages_got says which)",
                set_pages("madvise", "defrag"));
}

Finding check_shared_huge_pages(const Sources& sources) {
  const auto mode = chosen(sources.files, "shmem_enabled");
  if (!mode) return unknown("the kernel tells of no huge pages in shared memory");
  if (*mode != "never" && *mode != "deny") return fine(*mode);
  return spoils(fmt::format("{}: shared memory has no huge pages", *mode),
                "hugepage with --peers numpy, torch or cupy: their tables are shared, and refused",
                set_pages("advise", "shmem_enabled"));
}

Finding check_memlock(const Sources& sources) {
  // "Max locked memory         8388608              8388608              bytes": the soft limit counts.
  const auto limit = sources.files.value("/proc/self/limits", "Max locked memory");
  if (!limit) return unknown("the kernel does not tell how much memory may be locked");
  if (limit->starts_with("unlimited")) return fine("unlimited");
  const auto bytes = speedtorch::leading_number(*limit);
  if (!bytes) return unknown("the limit of locked memory is no number");
  constexpr std::int64_t kEnough = std::int64_t{1} << 33;  // more than any preset's largest table
  const std::string found = fmt::format("{} may be locked", bytes_text(*bytes));
  if (*bytes >= kEnough) return fine(found);
  if (!sources.gpus) return note(found, "none without a GPU: nothing here locks memory");
  return spoils(found, "pinned, where the system counts the driver's pages: the table is refused",
                "ulimit -l unlimited (docker --ulimit memlock=-1)");
}

Finding check_numa_nodes(const Sources& sources) {
  const auto nodes = sources.files.first_line("/sys/devices/system/node/online");
  if (!nodes) return unknown("the kernel tells of no memory nodes");
  const auto allowed = sources.files.value("/proc/self/status", "Mems_allowed_list");
  const auto usable = std::min(speedtorch::number_list(*nodes).size(),
                               speedtorch::number_list(allowed.value_or(*nodes)).size());
  if (usable <= 1) return fine("one memory node");
  return spoils(fmt::format("{} memory nodes", usable),
                "all rows: where a table lies decides, and LibTorch's lies where it was touched first",
                "one node by numactl --cpunodebind=0 --membind=0; or all of them, knowingly");
}

Finding check_numa_balancing(const Sources& sources) {
  const auto on = sources.files.number("/proc/sys/kernel/numa_balancing");
  const auto nodes = sources.files.first_line("/sys/devices/system/node/online");
  if (!on && nodes && speedtorch::number_list(*nodes).size() <= 1) return fine("one memory node");
  if (!on) return unknown("the kernel does not tell whether it moves pages between nodes");
  if (*on == 0) return fine("off");
  return spoils("on: the kernel moves pages between memory nodes, also during samples",
                "all rows on more than one node", "as root: sysctl kernel.numa_balancing=0");
}

Finding check_free_memory(const Sources& sources) {
  const auto total = sources.files.bytes(kMeminfo, "MemTotal");
  const auto free = sources.files.bytes(kMeminfo, "MemFree");
  const auto available = sources.files.bytes(kMeminfo, "MemAvailable");
  if (!total || !free || !available) return unknown("the kernel does not tell how much memory is free");
  const std::string found =
      fmt::format("{} free and {} in the page cache and alike, of {}", bytes_text(*free),
                  bytes_text(std::max<std::int64_t>(0, *available - *free)), bytes_text(*total));
  if (*available < *total / 4)
    return spoils(found, "all rows of large tables: fewer --rows fit, or others are pushed out",
                  "stop what holds the memory");
  if (*free < *total / 8)
    return spoils(found,
                  "hugepage and mapped: memory must first be taken from the page cache, piece by piece",
                  "as root: sync; echo 3 > /proc/sys/vm/drop_caches");
  return fine(found);
}

Finding check_dirty_pages(const Sources& sources) {
  const auto dirty = sources.files.bytes(kMeminfo, "Dirty");
  const auto writing = sources.files.bytes(kMeminfo, "Writeback");
  if (!dirty || !writing) return unknown("the kernel does not tell what waits to be written");
  const std::string found = fmt::format("{} wait to be written to files", bytes_text(*dirty + *writing));
  constexpr std::int64_t kMany = std::int64_t{256} << 20;  // a tenth of a second of a fast disk
  if (*dirty + *writing < kMany) return fine(found);
  return spoils(found, "all rows for the next seconds: writing them takes memory bandwidth; mapped most",
                "sync, then run");
}

Finding check_swap(const Sources& sources) {
  const auto total = sources.files.bytes(kMeminfo, "SwapTotal");
  const auto free = sources.files.bytes(kMeminfo, "SwapFree");
  if (!total || !free) return unknown("the kernel tells of no swap");
  if (*total == 0) return fine("none");
  const std::string found = fmt::format("{} of {} in use", bytes_text(*total - *free), bytes_text(*total));
  constexpr double kLittle = 0.01;
  if (static_cast<double>(*total - *free) > kLittle * static_cast<double>(*total))
    return spoils(found, "all rows: memory was short, and a table may be swapped out during its samples",
                  "as root: swapoff -a; or stop what holds the memory");
  return note(found, "large tables: they may be swapped out where memory runs short", "as root: swapoff -a");
}

Finding check_memory_limit(const Sources& sources) {
  if (sources.files.lines("/proc/self/cgroup").empty())
    return unknown("the kernel tells of no control groups (/proc/self/cgroup)");
  const auto limits = speedtorch::read_cgroup_limits(sources.files);
  const auto total = sources.files.bytes(kMeminfo, "MemTotal");
  if (!limits.memory || (total && *limits.memory >= *total)) return fine("none below the machine's memory");
  const auto left = limits.memory_available.value_or(*limits.memory);
  const std::string found = fmt::format("{}, {} of it left", bytes_text(*limits.memory), bytes_text(left));
  if (left < *limits.memory / 4)
    return spoils(found, "all rows of large tables: the process is killed at the limit",
                  "raise it (memory.max, docker --memory), or use fewer --rows");
  return note(found, "mapped: pages of files count in the limit, and are dropped at it",
              "raise it (memory.max, docker --memory) for larger tables");
}

}  // namespace

std::vector<Check> memory_checks() {
  return {
      {"huge-pages", check_huge_pages},
      {"huge-page-defrag", check_huge_page_defrag},
      {"shared-huge-pages", check_shared_huge_pages},
      {"memlock", check_memlock},
      {"numa-nodes", check_numa_nodes},
      {"numa-balancing", check_numa_balancing},
      {"free-memory", check_free_memory},
      {"dirty-pages", check_dirty_pages},
      {"swap", check_swap},
      {"memory-limit", check_memory_limit},
  };
}

}  // namespace stbench::harness::doctor
