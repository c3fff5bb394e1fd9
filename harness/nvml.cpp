#include "harness/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace stbench::harness {
namespace {

// The part of NVML's stable binary interface that is used (nvml.h of the CUDA toolkit).
using Return = int;  // 0 is success
using Device = void*;
enum ClockKind : int { kSmClock = 1, kMemoryClock = 2 };
struct Memory {
  unsigned long long total, free, used;
};

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

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

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

}  // namespace

struct Nvml::Functions {
  explicit Functions(const std::string& name) : library(dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (!library) throw NvmlError(fmt::format("no NVIDIA driver: {} cannot be loaded", name));
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(error_string, "nvmlErrorString");
    find(driver_version, "nvmlSystemGetDriverVersion");
    find(count, "nvmlDeviceGetCount_v2");
    find(handle, "nvmlDeviceGetHandleByIndex_v2");
    find(name_of, "nvmlDeviceGetName");
    find(memory, "nvmlDeviceGetMemoryInfo");
    find(link_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
    find(link_generation_max, "nvmlDeviceGetMaxPcieLinkGeneration");
    find(link_width, "nvmlDeviceGetCurrPcieLinkWidth");
    find(link_width_max, "nvmlDeviceGetMaxPcieLinkWidth");
    find(clock, "nvmlDeviceGetClockInfo");
    find(clock_max, "nvmlDeviceGetMaxClockInfo");
    find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(mig, "nvmlDeviceGetMigMode");
    if (init == nullptr || shutdown == nullptr || count == nullptr || handle == nullptr) {
      throw NvmlError(fmt::format("{} is no NVML of this decade", name));
    }
  }

  template <class F>
  void find(F& function, const char* symbol) {
    function = reinterpret_cast<F>(dlsym(library.get(), symbol));
  }

  void check(Return result, std::string_view what) const {
    if (result == 0) return;
    const char* reason = error_string == nullptr ? "no reason given" : error_string(result);
    throw NvmlError(fmt::format("NVML {}: {} ({})", what, reason, result));
  }

  std::unique_ptr<void, CloseLibrary> library;
  Return (*init)();
  Return (*shutdown)();
  const char* (*error_string)(Return);
  Return (*driver_version)(char*, unsigned);
  Return (*count)(unsigned*);
  Return (*handle)(unsigned, Device*);
  Return (*name_of)(Device, char*, unsigned);
  Return (*memory)(Device, Memory*);
  Return (*link_generation)(Device, unsigned*);
  Return (*link_generation_max)(Device, unsigned*);
  Return (*link_width)(Device, unsigned*);
  Return (*link_width_max)(Device, unsigned*);
  Return (*clock)(Device, int, unsigned*);
  Return (*clock_max)(Device, int, unsigned*);
  Return (*throttle)(Device, unsigned long long*);
  Return (*mig)(Device, unsigned*, unsigned*);
};

Nvml::Nvml(const std::string& library) : functions_(std::make_unique<Functions>(library)) {
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

GpuState Nvml::state(int index) const {
  const Functions& f = *functions_;
  Device device = nullptr;
  f.check(f.handle(static_cast<unsigned>(index), &device), fmt::format("cannot open device {}", index));
  GpuState state;
  std::array<char, 128> name{};
  if (f.name_of != nullptr && f.name_of(device, name.data(), name.size() - 1) == 0) state.name = name.data();
  Memory memory{};
  if (f.memory != nullptr && f.memory(device, &memory) == 0) {
    state.memory_bytes = static_cast<std::int64_t>(memory.total);
    state.memory_free_bytes = static_cast<std::int64_t>(memory.free);
  }
  state.link_generation = ask<int>(f.link_generation, device);
  state.link_generation_max = ask<int>(f.link_generation_max, device);
  state.link_width = ask<int>(f.link_width, device);
  state.link_width_max = ask<int>(f.link_width_max, device);
  state.sm_clock_mhz = ask_clock(f.clock, device, kSmClock);
  state.sm_clock_max_mhz = ask_clock(f.clock_max, device, kSmClock);
  state.memory_clock_mhz = ask_clock(f.clock, device, kMemoryClock);
  state.memory_clock_max_mhz = ask_clock(f.clock_max, device, kMemoryClock);
  const auto reasons = ask<unsigned long long>(f.throttle, device);
  if (reasons) state.throttle_reasons = reasons_of(*reasons);
  unsigned current = 0, pending = 0;
  if (f.mig != nullptr && f.mig(device, &current, &pending) == 0) state.mig = current != 0;
  return state;
}

}  // namespace stbench::harness
