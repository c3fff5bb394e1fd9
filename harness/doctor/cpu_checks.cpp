#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

#include "harness/doctor/checks.h"
#include "speedtorch/system/cgroup.h"

namespace stbench::harness::doctor {
namespace {

constexpr std::string_view kCpus = "/sys/devices/system/cpu";

std::string cpus_text(std::size_t count) { return fmt::format("{} CPU{}", count, count == 1 ? "" : "s"); }

Finding check_governor(const Sources& sources) {
  std::map<std::string, std::size_t> governors;
  for (const int cpu : allowed_cpus(sources.files)) {
    const auto governor =
        sources.files.first_line(fmt::format("{}/cpu{}/cpufreq/scaling_governor", kCpus, cpu));
    if (governor) ++governors[*governor];
  }
  if (governors.empty())
    return unknown("the kernel tells no governor: the firmware or the hypervisor sets the clock");
  std::vector<std::string> parts;
  for (const auto& [name, count] : governors)
    parts.push_back(fmt::format("{} on {}", name, cpus_text(count)));
  const std::string found = fmt::format("{}", fmt::join(parts, ", "));
  if (governors.size() == 1 && governors.contains("performance")) return fine(found);
  return spoils(found, "all rows: the clock follows the load, late; short batches most",
                "as root: cpupower frequency-set -g performance");
}

Finding check_turbo(const Sources& sources) {
  const auto off = sources.files.number(fmt::format("{}/intel_pstate/no_turbo", kCpus));
  const auto boost = sources.files.number(fmt::format("{}/cpufreq/boost", kCpus));
  if (!off && !boost) return unknown("the kernel tells of no turbo: the firmware or the hypervisor decides");
  if (off ? *off != 0 : *boost == 0) return fine("off");
  const char* cure = off ? "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
                         : "echo 0 > /sys/devices/system/cpu/cpufreq/boost";
  return spoils("on", "all rows: the clock depends on the temperature and on how many cores are busy",
                fmt::format("as root: {}", cure));
}

Finding check_load(const Sources& sources) {
  // "0.50 0.40 0.30 2/128 30559": means of 1, 5 and 15 minutes, runnable of all, the last process.
  std::istringstream line(sources.files.first_line("/proc/loadavg").value_or(""));
  double last_minute = 0, five = 0, fifteen = 0;
  int runnable = 0;
  if (!(line >> last_minute >> five >> fifteen >> runnable))
    return unknown("the kernel tells of no load (/proc/loadavg)");
  const int others = std::max(0, runnable - 1);  // one of them asks
  const std::string found = fmt::format(
      "{:.2f} threads busy on average in the last minute, {} beside this one now", last_minute, others);
  constexpr double kQuiet = 0.5;
  if (last_minute < kQuiet) return fine(found);
  return spoils(found, "all rows: cores, caches and memory bandwidth are shared with it",
                "stop what else runs (top shows it), wait a minute");
}

Finding check_two_cpus(const Sources& sources) {
  if (!sources.two_cpus) return unknown("the process may use one core only, or cannot pin threads");
  const std::string found =
      fmt::format("arithmetic takes {:.1f} times as long on two CPUs at once as on one", *sources.two_cpus);
  constexpr double kTwoCores = 1.4;
  if (*sources.two_cpus < kTwoCores) return fine(found);
  return spoils(found, "rows of several threads: the host runs two CPUs on one core, for now or always",
                "measure at another time, or with --cores 1");
}

Finding check_cpu_quota(const Sources& sources) {
  if (sources.files.lines("/proc/self/cgroup").empty())
    return unknown("the kernel tells of no control groups (/proc/self/cgroup)");
  const auto quota = speedtorch::read_cgroup_limits(sources.files).cpus;
  const auto cpus = allowed_cpus(sources.files).size();
  if (!quota) return fine("none");
  const std::string found = fmt::format("{:g} CPUs of time on {}", *quota, cpus_text(cpus));
  if (cpus > 0 && *quota >= static_cast<double>(cpus)) return fine(found);
  return spoils(found, "all rows whose threads use it up: they are stopped in the middle of samples",
                "raise it (cpu.max, docker --cpus), or use so few --cores that it suffices");
}

Finding check_cpuset(const Sources& sources) {
  const auto allowed = allowed_cpus(sources.files).size();
  const auto online =
      speedtorch::number_list(sources.files.first_line(fmt::format("{}/online", kCpus)).value_or("")).size();
  if (allowed == 0 || online == 0) return unknown("the kernel does not tell which CPUs may be used");
  const std::string found = fmt::format("{} of {}", allowed, cpus_text(online));
  if (allowed >= online) return fine(found);
  return note(found, "all rows: they and their ceilings are of these CPUs, whose neighbours others may use",
              "start it without taskset or with a wider cpuset to use more");
}

Finding check_virtual_machine(const Sources& sources) {
  const auto flags = sources.files.value("/proc/cpuinfo", "flags");
  if (!flags) return unknown("the kernel does not tell (no flags in /proc/cpuinfo)");
  std::istringstream words(*flags);
  for (std::string word; words >> word;) {
    if (word != "hypervisor") continue;
    return note("a virtual machine",
                "all rows: neighbours on the host share caches, memory and links, unseen",
                "repeat the run at another time, and compare");
  }
  return fine("none");
}

Finding check_steal(const Sources& sources) {
  // "cpu user nice system idle iowait irq softirq steal ...", since the machine started.
  std::istringstream line(sources.files.value("/proc/stat", "cpu").value_or(""));
  std::vector<double> ticks;
  for (double tick = 0; line >> tick && ticks.size() < 8;) ticks.push_back(tick);
  if (ticks.size() < 8) return unknown("the kernel tells of no stolen time (/proc/stat)");
  const double all = std::accumulate(ticks.begin(), ticks.end(), 0.0);
  const double busy = all - ticks[3] - ticks[4];
  const double share = busy > 0 ? ticks[7] / busy : 0;
  const std::string found = fmt::format("{:.1f} % of the busy time since the machine started", share * 100);
  constexpr double kLittle = 0.01;
  if (share < kLittle) return fine(found);
  return spoils(found, "all rows: the host runs others on these CPUs",
                "a machine with CPUs of its own; else more --samples");
}

Finding check_clock_source(const Sources& sources) {
  const auto source =
      sources.files.first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return unknown("the kernel tells of no clock source");
  const bool slow =
      *source == "hpet" || *source == "acpi_pm" || *source == "jiffies" || *source == "refined-jiffies";
  if (!slow) return fine(*source);
  return spoils(*source, "short batches and latencies: each reading of the clock takes microseconds",
                "boot with clocksource=tsc where the processor's counter is steady");
}

Finding check_mitigations(const Sources& sources) {
  // These mitigations slow down system calls or vector loads.
  std::vector<std::string> costly;
  const auto names = sources.files.names(fmt::format("{}/vulnerabilities", kCpus));
  for (const auto& name : names) {
    const auto state =
        sources.files.first_line(fmt::format("{}/vulnerabilities/{}", kCpus, name)).value_or("");
    const bool costs = (name == "meltdown" && state.find("PTI") != state.npos) ||
                       (name == "gather_data_sampling" && state.starts_with("Mitigation")) ||
                       (name == "retbleed" && state.starts_with("Mitigation")) ||
                       (name == "mds" && state.starts_with("Mitigation"));
    if (costs) costly.push_back(name);
  }
  if (names.empty()) return unknown("the kernel tells of no mitigations");
  if (costly.empty()) return fine("none that costs much here");
  return note(fmt::format("against {}", fmt::join(costly, ", ")),
              "rows that enter the kernel: mapped tables, pages touched first, other processes' methods",
              "none that is safe; compare only with machines that have the same");
}

Finding check_build(const Sources& sources) {
  const auto& build = sources.build;
  const bool sanitized = build.flags.find("-fsanitize") != std::string::npos;
  const std::string found = fmt::format("{}{}", build.build_type.empty() ? "no build type" : build.build_type,
                                        sanitized ? " with a sanitizer" : "");
  if (build.build_type == "Release" && !sanitized) return fine(found);
  return spoils(found, "all rows of this project's methods: too slow",
                "build with CMAKE_BUILD_TYPE=Release and without sanitizers (./stbench does)");
}

}  // namespace

std::vector<int> allowed_cpus(const speedtorch::SystemFiles& files) {
  return speedtorch::number_list(files.value("/proc/self/status", "Cpus_allowed_list").value_or(""));
}

std::vector<Check> cpu_checks() {
  return {
      {"build", check_build},
      {"governor", check_governor},
      {"turbo", check_turbo},
      {"load", check_load},
      {"two-cpus", check_two_cpus},
      {"cpu-quota", check_cpu_quota},
      {"cpuset", check_cpuset},
      {"virtual-machine", check_virtual_machine},
      {"steal", check_steal},
      {"clock-source", check_clock_source},
      {"mitigations", check_mitigations},
  };
}

}  // namespace stbench::harness::doctor
