#include "harness/clock_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace stbench::harness {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCpus = "/sys/devices/system/cpu";
constexpr std::string_view kZones = "/sys/class/thermal";

std::unique_ptr<Nvml> driver(const std::string& library) {
  try {
    return std::make_unique<Nvml>(library);
  } catch (const NvmlError&) {
    return nullptr;  // doctor and the environment say why
  }
}

/// The counters of the CPUs that the kernel has (of Intel's processors, outside virtual machines).
std::vector<std::string> throttle_files(const speedtorch::SystemFiles& files, const std::vector<int>& cpus) {
  std::vector<std::string> found;
  for (const int cpu : cpus) {
    for (const char* name : {"core_throttle_count", "package_throttle_count"}) {
      auto path = fmt::format("{}/cpu{}/thermal_throttle/{}", kCpus, cpu, name);
      if (files.number(path)) found.push_back(std::move(path));
    }
  }
  return found;
}

/// The hottest of the processors' own sensors, degrees.
std::optional<double> cpu_temperature(const speedtorch::SystemFiles& files) {
  std::optional<double> hottest;
  for (const auto& zone : files.names(kZones)) {
    const auto kind = files.first_line(fmt::format("{}/{}/type", kZones, zone));
    const auto thousandths = files.number(fmt::format("{}/{}/temp", kZones, zone));
    const bool of_cpu = kind && (*kind == "x86_pkg_temp" || kind->starts_with("cpu"));
    if (of_cpu && thousandths)
      hottest = std::max(hottest.value_or(0), static_cast<double>(*thousandths) / 1000);
  }
  return hottest;
}

}  // namespace

ClockWatch::ClockWatch(const EnvironmentSources& sources, std::vector<int> cpus)
    : files_(sources.root),
      cpus_(std::move(cpus)),
      throttle_files_(throttle_files(files_, cpus_)),
      cuda_bus_ids_(sources.cuda_bus_ids),
      nvml_(driver(sources.nvml_library)) {}

Json ClockWatch::read(const std::set<std::string>& devices) const {
  Json all = Json::object();
  for (const auto& device : devices) all[device] = device == "cpu" ? read_cpu() : read_gpu(device);
  return all;
}

Json ClockWatch::read_cpu() const {
  std::vector<double> clocks;
  for (const int cpu : cpus_) {
    const auto kilohertz = files_.number(fmt::format("{}/cpu{}/cpufreq/scaling_cur_freq", kCpus, cpu));
    if (kilohertz) clocks.push_back(static_cast<double>(*kilohertz) * 1e3);
  }
  Json range = nullptr;
  if (!clocks.empty()) {
    const auto [low, high] = std::ranges::minmax(clocks);
    range = {low, high};
  }
  return {{"clock_hz", range},
          {"temperature_c", or_null(cpu_temperature(files_))},
          {"throttle_count", or_null(cpu_throttle_count())}};
}

std::optional<int> ClockWatch::number_of(const std::string& device) const {
  constexpr std::string_view kCuda = "cuda:";
  if (!nvml_ || !device.starts_with(kCuda)) return std::nullopt;
  const auto number = speedtorch::leading_number(std::string_view(device).substr(kCuda.size()));
  if (!number || *number >= std::ssize(cuda_bus_ids_)) return std::nullopt;
  return nvml_->device_at(cuda_bus_ids_[static_cast<std::size_t>(*number)]);
}

Json ClockWatch::read_gpu(const std::string& device) const {
  GpuState state;
  try {
    if (const auto number = number_of(device)) state = nvml_->state(*number);
  } catch (const NvmlError&) {
    // Nothing is known of a GPU that does not answer.
  }
  return {{"sm_clock_hz", hertz_or_null(state.sm_clock_mhz)},
          {"memory_clock_hz", hertz_or_null(state.memory_clock_mhz)},
          {"temperature_c", or_null(state.temperature_c)},
          {"power_w", or_null(state.power_w)},
          {"power_limit_w", or_null(state.power_limit_w)},
          {"throttle_reasons", or_null(state.throttle_reasons)},
          {"link_generation", or_null(state.link_generation)},
          {"link_width", or_null(state.link_width)}};
}

std::optional<std::int64_t> ClockWatch::cpu_throttle_count() const {
  std::optional<std::int64_t> sum;
  for (const auto& path : throttle_files_) {
    if (const auto count = files_.number(path)) sum = sum.value_or(0) + *count;
  }
  return sum;
}

// The driver tells of now only: a look that finds the GPU throttled counts one up, so that the look after a
// sample is above the one before it.
std::optional<std::int64_t> ClockWatch::throttle_count(const std::string& device) {
  if (device == "cpu") return cpu_throttle_count();
  try {
    const auto number = number_of(device);
    const auto reasons = number ? nvml_->throttle_reasons(*number) : std::nullopt;
    if (!reasons) return std::nullopt;
    if (std::ranges::any_of(*reasons, slows_down)) ++gpu_throttle_sightings_;
    return gpu_throttle_sightings_;
  } catch (const NvmlError&) {
    return std::nullopt;
  }
}

}  // namespace stbench::harness
