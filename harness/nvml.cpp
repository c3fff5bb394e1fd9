#include "harness/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "harness/loaded_library.h"

namespace stbench::harness {
namespace {

// The part of NVML's stable binary interface that is used (nvml.h of the CUDA toolkit).
using Return = int;  // 0 is success
using Device = void*;
enum ClockKind : int { kSmClock = 1, kMemoryClock = 2 };
struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  std::array<char, 16> legacy_id;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> id;
};
struct Utilization {
  unsigned gpu, memory;
};
struct ConfidentialComputing {
  unsigned environment, feature, developer_mode;
};
constexpr int kCoreTemperature = 0;

constexpr std::array<std::pair<unsigned long long, std::string_view>, 9> kThrottleReasons{
    {{0x1, "idle"},
     {0x2, "application clocks"},
     {0x4, "power cap (software)"},
     {0x8, "slowdown (hardware)"},
     {0x10, "sync boost"},
     {0x20, "thermal slowdown (software)"},
     {0x40, "thermal slowdown (hardware)"},
     {0x80, "power brake (hardware)"},
     {0x100, "display clocks"}}};

/// The reasons that lower the clocks under a work load; the others say that no more was requested.
constexpr unsigned long long kSlowing = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

std::vector<std::string> reasons_of(unsigned long long bits) {
  std::vector<std::string> reasons;
  for (const auto& [bit, name] : kThrottleReasons) {
    if ((bits & bit) != 0) reasons.emplace_back(name);
  }
  return reasons;
}

/// The last word of a call that takes a device and where to write one value.
template <class T, class Raw = unsigned>
std::optional<T> ask(Return (*function)(Device, Raw*), Device device) {
  Raw value{};
  if (function == nullptr || function(device, &value) != 0) return std::nullopt;
  return static_cast<T>(value);
}

std::optional<int> ask_clock(Return (*function)(Device, int, unsigned*), Device device, ClockKind kind) {
  unsigned megahertz = 0;
  if (function == nullptr || function(device, kind, &megahertz) != 0) return std::nullopt;
  return static_cast<int>(megahertz);
}

/// A number in thousandths, as the driver tells of watts.
std::optional<double> ask_milli(Return (*function)(Device, unsigned*), Device device) {
  const auto value = ask<double>(function, device);
  return value ? std::optional(*value / 1000) : std::nullopt;
}

}  // namespace

bool slows_down(const std::string& throttle_reason) {
  return std::ranges::any_of(kThrottleReasons, [&](const auto& one) {
    return one.second == throttle_reason && (one.first & kSlowing) != 0;
  });
}

std::string plain_bus_id(const std::string& pci_bus_id) {
  unsigned domain = 0, bus = 0, device = 0;
  if (std::sscanf(pci_bus_id.c_str(), "%x:%x:%x", &domain, &bus, &device) != 3) return pci_bus_id;
  return fmt::format("{:x}:{:x}:{:x}", domain, bus, device);
}

struct Nvml::Functions {
  explicit Functions(const std::string& name) : library(name, RTLD_LAZY | RTLD_LOCAL) {
    if (init == nullptr || shutdown == nullptr || count == nullptr || handle == nullptr) {
      throw NvmlError(fmt::format("{} is no NVML of this decade", name));
    }
  }

  /// A newer or older driver may lack some.
  [[nodiscard]] LoadedLibrary::Symbol find(const char* name) const { return library.find(name); }

  void check(Return result, std::string_view what) const {
    if (result == 0) return;
    const char* reason = error_string == nullptr ? "no reason given" : error_string(result);
    throw NvmlError(fmt::format("NVML {}: {} ({})", what, reason, result));
  }

  [[nodiscard]] std::string bus_id(Device device) const;
  void describe(Device device, GpuState& state) const;
  void read_speed(Device device, GpuState& state) const;

  [[nodiscard]] Device open(int index) const {
    Device device = nullptr;
    check(handle(static_cast<unsigned>(index), &device), fmt::format("cannot open device {}", index));
    return device;
  }

  LoadedLibrary library;
  Return (*init)() = find("nvmlInit_v2");
  Return (*shutdown)() = find("nvmlShutdown");
  const char* (*error_string)(Return) = find("nvmlErrorString");
  Return (*driver_version)(char*, unsigned) = find("nvmlSystemGetDriverVersion");
  Return (*count)(unsigned*) = find("nvmlDeviceGetCount_v2");
  Return (*handle)(unsigned, Device*) = find("nvmlDeviceGetHandleByIndex_v2");
  Return (*name_of)(Device, char*, unsigned) = find("nvmlDeviceGetName");
  Return (*memory)(Device, Memory*) = find("nvmlDeviceGetMemoryInfo");
  Return (*link_generation)(Device, unsigned*) = find("nvmlDeviceGetCurrPcieLinkGeneration");
  Return (*link_generation_max)(Device, unsigned*) = find("nvmlDeviceGetMaxPcieLinkGeneration");
  Return (*link_width)(Device, unsigned*) = find("nvmlDeviceGetCurrPcieLinkWidth");
  Return (*link_width_max)(Device, unsigned*) = find("nvmlDeviceGetMaxPcieLinkWidth");
  Return (*clock)(Device, int, unsigned*) = find("nvmlDeviceGetClockInfo");
  Return (*clock_max)(Device, int, unsigned*) = find("nvmlDeviceGetMaxClockInfo");
  Return (*throttle)(Device, unsigned long long*) = find("nvmlDeviceGetCurrentClocksThrottleReasons");
  Return (*mig)(Device, unsigned*, unsigned*) = find("nvmlDeviceGetMigMode");
  Return (*pci)(Device, PciInfo*) = find("nvmlDeviceGetPciInfo_v3");
  Return (*ecc)(Device, int*, int*) = find("nvmlDeviceGetEccMode");
  Return (*persistence)(Device, int*) = find("nvmlDeviceGetPersistenceMode");
  Return (*temperature)(Device, int, unsigned*) = find("nvmlDeviceGetTemperature");
  Return (*power)(Device, unsigned*) = find("nvmlDeviceGetPowerUsage");
  Return (*power_limit)(Device, unsigned*) = find("nvmlDeviceGetEnforcedPowerLimit");
  Return (*utilization)(Device, Utilization*) = find("nvmlDeviceGetUtilizationRates");
  Return (*confidential)(ConfidentialComputing*) = find("nvmlSystemGetConfComputeState");
};

Nvml::Nvml(const std::string& library) {
  try {
    functions_ = std::make_unique<Functions>(library);
  } catch (const LibraryMissing&) {
    throw NvmlError(fmt::format("no NVIDIA driver: {} cannot be loaded", library));
  }
  functions_->check(functions_->init(), "cannot be initialised");
}

Nvml::~Nvml() { functions_->shutdown(); }

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (functions_->driver_version == nullptr) return "";
  functions_->check(functions_->driver_version(text.data(), text.size() - 1), "tells no driver version");
  return text.data();
}

int Nvml::device_count() const {
  unsigned count = 0;
  functions_->check(functions_->count(&count), "cannot count the devices");
  return static_cast<int>(count);
}

std::string Nvml::Functions::bus_id(Device device) const {
  PciInfo info{};
  return pci != nullptr && pci(device, &info) == 0 ? std::string(info.id.data()) : std::string();
}

/// The identity of a device and its fixed properties.
void Nvml::Functions::describe(Device device, GpuState& state) const {
  std::array<char, 128> text{};
  if (name_of != nullptr && name_of(device, text.data(), text.size() - 1) == 0) state.name = text.data();
  state.pci_bus_id = bus_id(device);
  Memory bytes{};
  if (memory != nullptr && memory(device, &bytes) == 0) {
    state.memory_bytes = static_cast<std::int64_t>(bytes.total);
    state.memory_free_bytes = static_cast<std::int64_t>(bytes.free);
  }
  unsigned current = 0, pending = 0;
  if (mig != nullptr && mig(device, &current, &pending) == 0) state.mig = current != 0;
  int on = 0, later = 0;
  if (ecc != nullptr && ecc(device, &on, &later) == 0) state.ecc = on != 0;
  state.persistence = ask<bool>(persistence, device);
}

/// How fast it is at the moment, and what holds it back.
void Nvml::Functions::read_speed(Device device, GpuState& state) const {
  state.link_generation = ask<int>(link_generation, device);
  state.link_generation_max = ask<int>(link_generation_max, device);
  state.link_width = ask<int>(link_width, device);
  state.link_width_max = ask<int>(link_width_max, device);
  state.sm_clock_mhz = ask_clock(clock, device, kSmClock);
  state.sm_clock_max_mhz = ask_clock(clock_max, device, kSmClock);
  state.memory_clock_mhz = ask_clock(clock, device, kMemoryClock);
  state.memory_clock_max_mhz = ask_clock(clock_max, device, kMemoryClock);
  const auto reasons = ask<unsigned long long>(throttle, device);
  if (reasons) state.throttle_reasons = reasons_of(*reasons);
  unsigned degrees = 0;
  if (temperature != nullptr && temperature(device, kCoreTemperature, &degrees) == 0)
    state.temperature_c = static_cast<int>(degrees);
  state.power_w = ask_milli(power, device);
  state.power_limit_w = ask_milli(power_limit, device);
  Utilization rates{};
  if (utilization != nullptr && utilization(device, &rates) == 0)
    state.busy_percent = static_cast<int>(rates.gpu);
}

GpuState Nvml::state(int index) const {
  const Device device = functions_->open(index);
  GpuState state;
  functions_->describe(device, state);
  functions_->read_speed(device, state);
  return state;
}

std::optional<std::vector<std::string>> Nvml::throttle_reasons(int index) const {
  const auto reasons = ask<unsigned long long>(functions_->throttle, functions_->open(index));
  return reasons ? std::optional(reasons_of(*reasons)) : std::nullopt;
}

std::optional<int> Nvml::device_at(const std::string& pci_bus_id) const {
  const int count = device_count();
  for (int index = 0; index < count; ++index) {
    const auto found = functions_->bus_id(functions_->open(index));
    if (!found.empty() && plain_bus_id(found) == plain_bus_id(pci_bus_id)) return index;
  }
  return std::nullopt;
}

std::optional<bool> Nvml::confidential_computing() const {
  ConfidentialComputing state{};
  if (functions_->confidential == nullptr || functions_->confidential(&state) != 0) return std::nullopt;
  return state.feature != 0;
}

}  // namespace stbench::harness
