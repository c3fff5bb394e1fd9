// A stand-in of NVML, libnvidia-ml.so.1, for the emulated devices: clocks, throttling, ECC, the link and the
// rest are what EMULATED_GPU_SENSORS says. It has the functions that the program and LibTorch look up; nvml.h
// is not needed.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/emulated_gpu/runtime/nvml_sensors.h"
#include "tests/emulated_gpu/runtime/settings.h"

namespace {

using emulated_gpu::read_sensors;
using emulated_gpu::sensor;

using Result = int;
constexpr Result success = 0, invalid_argument = 2, not_supported = 3, not_found = 6, too_small = 7;

struct PciInfo {
  std::array<char, 16> legacy_id;
  unsigned domain, bus, device, device_id, subsystem_id;
  std::array<char, 32> id;
};
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct ConfidentialComputing {
  unsigned environment, feature, developer_mode;
};

/// A handle is the address of an element: its index is the device's number.
std::array<char, emulated_gpu::max_devices> handles;
int number_of(void* device) { return static_cast<int>(static_cast<char*>(device) - handles.data()); }
unsigned bus_number(int device) { return 0x3BU + static_cast<unsigned>(device); }

Result write(const std::string& value, char* to, unsigned size) {
  if (value.size() >= size) return too_small;
  std::memcpy(to, value.c_str(), value.size() + 1);
  return success;
}

/// Tells one sensor of a device.
template <class Value>
Result tell(void* device, const char* name, Value* value) {
  const auto found = sensor(read_sensors(number_of(device)), name);
  if (!found) return not_supported;
  *value = static_cast<Value>(*found);
  return success;
}

Result tell_clock(void* device, int kind, unsigned* value, const char* sm, const char* memory) {
  constexpr int sm_clock = 1, memory_clock = 2;
  if (kind != sm_clock && kind != memory_clock) return not_supported;
  return tell(device, kind == sm_clock ? sm : memory, value);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result nvmlInit_v2() { return success; }
Result nvmlShutdown() { return success; }

const char* nvmlErrorString(Result error) {
  switch (error) {
    case success:
      return "Success";
    case invalid_argument:
      return "Invalid Argument";
    case not_supported:
      return "Not Supported";
    case not_found:
      return "Not Found";
    default:
      return "Unknown Error";
  }
}

Result nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return write(read_sensors(0).at("driver"), version, size);
}

Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return success;
}

Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(emulated_gpu::settings().devices);
  return success;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= static_cast<unsigned>(emulated_gpu::settings().devices)) return invalid_argument;
  *device = &handles[index];
  return success;
}

Result nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) return invalid_argument;
  for (int one = 0; one < emulated_gpu::settings().devices; ++one) {
    if (domain == 0 && slot == 0 && bus == bus_number(one)) {
      *device = &handles[static_cast<std::size_t>(one)];
      return success;
    }
  }
  return not_found;
}

Result nvmlDeviceGetName(void* device, char* name, unsigned size) {
  const auto sensors = read_sensors(number_of(device));
  const auto given = sensors.find("name");
  return write(given != sensors.end() ? given->second : "Emulated GPU " + std::to_string(number_of(device)),
               name, size);
}

Result nvmlDeviceGetUUID(void* device, char* id, unsigned size) {
  return write("GPU-0000000" + std::to_string(number_of(device) + 1) + "-0000-0000-0000-000000000000", id,
               size);
}

Result nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  *info = {};
  info->bus = bus_number(number_of(device));
  std::snprintf(info->legacy_id.data(), info->legacy_id.size(), "0000:%02X:00.0", info->bus);
  std::snprintf(info->id.data(), info->id.size(), "00000000:%02X:00.0", info->bus);
  return success;
}

Result nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const auto sensors = read_sensors(number_of(device));
  const auto total = sensor(sensors, "memory_bytes"), free = sensor(sensors, "memory_free_bytes");
  if (!total || !free) return not_supported;
  *memory = {*total, *free, *total - *free};
  return success;
}

Result nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) {
  return tell(device, "link_generation", value);
}
Result nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) {
  return tell(device, "link_generation_max", value);
}
Result nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) {
  return tell(device, "link_width", value);
}
Result nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) {
  return tell(device, "link_width_max", value);
}

Result nvmlDeviceGetClockInfo(void* device, int kind, unsigned* value) {
  return tell_clock(device, kind, value, "sm_clock_mhz", "memory_clock_mhz");
}
Result nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* value) {
  return tell_clock(device, kind, value, "sm_clock_max_mhz", "memory_clock_max_mhz");
}
Result nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  return tell(device, "throttle_bits", bits);
}

Result nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  const auto result = tell(device, "mig", current);
  if (result == success) *pending = *current;
  return result;
}

Result nvmlDeviceGetEccMode(void* device, int* current, int* pending) {
  const auto result = tell(device, "ecc", current);
  if (result == success) *pending = *current;
  return result;
}

Result nvmlDeviceGetPersistenceMode(void* device, int* mode) { return tell(device, "persistence", mode); }

Result nvmlDeviceGetTemperature(void* device, int sensor_number, unsigned* degrees) {
  return sensor_number == 0 ? tell(device, "temperature_c", degrees) : invalid_argument;
}

Result nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return tell(device, "power_mw", milliwatts);
}
Result nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return tell(device, "power_limit_mw", milliwatts);
}

Result nvmlDeviceGetUtilizationRates(void* device, Utilization* rates) {
  rates->memory = 0;
  return tell(device, "busy_percent", &rates->gpu);
}

/// LibTorch asks who holds memory when none is left: no other process does.
Result nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return success;
}

Result nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int*) { return not_supported; }
Result nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, PciInfo*) { return not_supported; }
Result nvmlDeviceGetP2PStatus(void*, void*, int, int* status) {
  *status = 0;
  return success;
}

Result nvmlSystemGetConfComputeState(ConfidentialComputing* state) {
  const auto feature = sensor(read_sensors(0), "confidential");
  if (!feature) return not_supported;
  *state = {0, static_cast<unsigned>(*feature), 0};
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
