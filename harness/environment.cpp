#include "harness/environment.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "harness/nvml.h"
#include "speedtorch/system/cgroup.h"
#include "speedtorch/system/system_files.h"

namespace stbench::harness {
namespace {

using Json = nlohmann::ordered_json;

/// The instruction sets that decide which copy kernel runs, of x86 and of Arm.
constexpr std::array<std::string_view, 14> kInstructionSets{
    {"sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16", "amx_tile",
     "movdir64b", "asimd", "sve", "sve2"}};

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

Json instruction_sets(const speedtorch::SystemFiles& files) {
  auto flags = files.value("/proc/cpuinfo", "flags");
  if (!flags) flags = files.value("/proc/cpuinfo", "Features");
  Json sets = Json::array();
  const auto present = words(flags.value_or(""));
  for (const std::string_view set : kInstructionSets) {
    if (std::ranges::find(present, set) != present.end()) sets.push_back(set);
  }
  return sets;
}

Json caches(const Machine& machine) {
  Json all = Json::array();
  for (const Cache& cache : machine.caches) {
    all.push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"count", cache.count}});
  }
  return all;
}

Json cpu(const Machine& machine, const speedtorch::SystemFiles& files) {
  const int first = machine.allowed_cpus.empty() ? 0 : machine.allowed_cpus.front();
  const auto governor =
      files.first_line(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", first));
  return {{"model", text_or_null(machine.cpu_model)},
          {"design", text_or_null(machine.cpu_design)},
          {"sockets", machine.sockets},
          {"cores", machine.physical_cores},
          {"cores_allowed", machine.allowed_cores},
          {"affinity", cpu_ranges(machine.allowed_cpus)},
          {"cpu_quota", or_null(speedtorch::read_cgroup_limits(files).cpus)},
          {"smt", machine.smt},
          {"isa", instruction_sets(files)},
          {"caches", caches(machine)},
          {"governor", or_null(governor)},
          {"clock_step_s", machine.clock_step_s}};
}

Json memlock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return nullptr;
  return static_cast<std::uint64_t>(limit.rlim_cur);
}

Json memory(const Machine& machine, const speedtorch::SystemFiles& files) {
  constexpr std::string_view kMeminfo = "/proc/meminfo";
  constexpr std::string_view kThp = "/sys/kernel/mm/transparent_hugepage/";
  return {{"total_bytes", machine.memory_total},
          {"available_bytes", machine.memory_available},
          {"page_size", sysconf(_SC_PAGESIZE)},
          {"transparent_hugepage", or_null(files.choice(fmt::format("{}enabled", kThp)))},
          {"transparent_hugepage_defrag", or_null(files.choice(fmt::format("{}defrag", kThp)))},
          {"hugepage_size", or_null(files.bytes(kMeminfo, "Hugepagesize"))},
          {"hugepages_total", or_null(files.bytes(kMeminfo, "HugePages_Total"))},
          {"hugepages_free", or_null(files.bytes(kMeminfo, "HugePages_Free"))},
          {"numa_nodes", machine.numa_nodes},
          {"memlock_limit_bytes", memlock_limit()},
          {"swap_total_bytes", or_null(files.bytes(kMeminfo, "SwapTotal"))},
          {"swap_free_bytes", or_null(files.bytes(kMeminfo, "SwapFree"))}};
}

Json os(const speedtorch::SystemFiles& files) {
  utsname system{};
  uname(&system);
  std::string distribution = files.value("/etc/os-release", "PRETTY_NAME").value_or("");
  std::erase(distribution, '"');
  return {{"kernel", fmt::format("{} {}", system.sysname, system.release)},
          {"architecture", system.machine},
          {"distribution", text_or_null(distribution)}};
}

/// Compiler flags without the folders in them, which may name a user.
std::string without_folders(const std::string& flags) {
  std::vector<std::string> kept = words(flags);
  for (std::string& flag : kept) {
    const std::size_t slash = flag.find('/');
    if (slash != flag.npos) flag = flag.substr(0, slash) + "(folder)";
  }
  return fmt::format("{}", fmt::join(kept, " "));
}

Json build() {
  const BuildInfo& info = build_info();
  return {{"stbench", info.version},
          {"compiler", info.compiler},
          {"compiler_version", info.compiler_version},
          {"flags", without_folders(info.flags)},
          {"build_type", info.build_type},
          {"git_revision", text_or_null(info.git_revision)},
          {"git_dirty", info.git_revision.empty() ? Json(nullptr) : Json(info.git_dirty)}};
}

/// "cuda:0" for the GPU that CUDA calls so, or null for one that it does not see.
Json cuda_device(const GpuState& state, const std::vector<std::string>& cuda_bus_ids) {
  for (std::size_t number = 0; number < cuda_bus_ids.size(); ++number) {
    if (!state.pci_bus_id.empty() && plain_bus_id(cuda_bus_ids[number]) == plain_bus_id(state.pci_bus_id))
      return fmt::format("cuda:{}", number);
  }
  return nullptr;
}

Json device(const GpuState& state, const std::vector<std::string>& cuda_bus_ids) {
  return {{"name", text_or_null(state.name)},
          {"cuda", cuda_device(state, cuda_bus_ids)},
          {"memory_bytes", or_null(state.memory_bytes)},
          {"memory_free_bytes", or_null(state.memory_free_bytes)},
          {"link_generation", or_null(state.link_generation)},
          {"link_generation_max", or_null(state.link_generation_max)},
          {"link_width", or_null(state.link_width)},
          {"link_width_max", or_null(state.link_width_max)},
          {"sm_clock_hz", hertz_or_null(state.sm_clock_mhz)},
          {"sm_clock_max_hz", hertz_or_null(state.sm_clock_max_mhz)},
          {"memory_clock_hz", hertz_or_null(state.memory_clock_mhz)},
          {"memory_clock_max_hz", hertz_or_null(state.memory_clock_max_mhz)},
          {"throttle_reasons", or_null(state.throttle_reasons)},
          {"mig", or_null(state.mig)},
          {"ecc", or_null(state.ecc)},
          {"persistence", or_null(state.persistence)},
          {"power_limit_w", or_null(state.power_limit_w)}};
}

Json gpu(const EnvironmentSources& sources) {
  Json all = {{"driver_version", nullptr},
              {"devices", nullptr},
              {"reason", nullptr},
              {"emulated", sources.emulated_gpu}};
  try {
    const Nvml nvml(sources.nvml_library);
    Json devices = Json::array();
    for (int index = 0; index < nvml.device_count(); ++index)
      devices.push_back(device(nvml.state(index), sources.cuda_bus_ids));
    all["driver_version"] = text_or_null(nvml.driver_version());  // may throw, too
    all["devices"] = devices;
  } catch (const NvmlError& error) {
    all["reason"] = error.what();
  }
  return all;
}

}  // namespace

std::string cpu_ranges(std::vector<int> cpus) {
  std::ranges::sort(cpus);
  std::string text;
  for (std::size_t begin = 0; begin < cpus.size();) {
    std::size_t end = begin + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += text.empty() ? "" : ",";
    text += fmt::format("{}", cpus[begin]);
    if (end - begin > 1) text += fmt::format("-{}", cpus[end - 1]);
    begin = end;
  }
  return text;
}

nlohmann::ordered_json environment(const Machine& machine, const EnvironmentSources& sources) {
  const speedtorch::SystemFiles files(sources.root);
  return {{"cpu", cpu(machine, files)},
          {"memory", memory(machine, files)},
          {"os", os(files)},
          {"build", build()},
          {"gpu", gpu(sources)}};
}

}  // namespace stbench::harness
