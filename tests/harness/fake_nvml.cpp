// A library with NVML's functions, of a driver with two GPUs: the second tells little but its place on the
// bus. What the first tells is fixed, except for what a test sets in the environment: FAKE_NVML_THROTTLE is
// its throttle bits.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {
int gpus[2];
bool is_first(void* device) { return device == &gpus[0]; }
int unsupported() { return 3; }
template <class T>
int answer(void* device, T* value, T first) {
  if (!is_first(device)) return unsupported();
  *value = first;
  return 0;
}
}  // namespace

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "some reason"; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::strncpy(text, "580.65.06", size);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return 2;
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  std::strncpy(text, is_first(device) ? "Fake GPU" : "Quiet GPU", size);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, std::uint64_t* total_free_used) {
  if (!is_first(device)) return unsupported();
  total_free_used[0] = 1000;
  total_free_used[1] = 600;
  total_free_used[2] = 400;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) { return answer(device, value, 3U); }
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) { return answer(device, value, 5U); }
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) { return answer(device, value, 8U); }
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) { return answer(device, value, 16U); }
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* value) {
  return answer(device, value, kind == 1 ? 1980U : kind == 2 ? 3201U : 0U);
}
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* value) {
  return answer(device, value, kind == 1 ? 2000U : kind == 2 ? 3300U : 0U);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* value) {
  const char* bits = std::getenv("FAKE_NVML_THROTTLE");
  return answer(device, value, bits == nullptr ? 0x1ULL | 0x20ULL : std::strtoull(bits, nullptr, 0));
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *pending = 0;
  return answer(device, current, 1U);
}
struct FakePciInfo {
  char legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, FakePciInfo* info) {
  std::strncpy(info->id, is_first(device) ? "00000000:3B:00.0" : "00000001:AF:00.0", sizeof info->id);
  return 0;
}
int nvmlDeviceGetEccMode(void* device, int* current, int* pending) {
  *pending = 0;
  return answer(device, current, 1);
}
int nvmlDeviceGetPersistenceMode(void* device, int* mode) { return answer(device, mode, 0); }
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* value) {
  return answer(device, value, sensor == 0 ? 61U : 0U);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* value) { return answer(device, value, 312500U); }
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* value) { return answer(device, value, 700000U); }
int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_and_memory) {
  if (!is_first(device)) return unsupported();
  gpu_and_memory[0] = 42;
  gpu_and_memory[1] = 7;
  return 0;
}
int nvmlSystemGetConfComputeState(unsigned* environment_feature_mode) {
  environment_feature_mode[0] = 2;
  environment_feature_mode[1] = 1;
  environment_feature_mode[2] = 0;
  return 0;
}
}
