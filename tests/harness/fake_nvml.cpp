// A library with NVML's functions, of a driver with two GPUs: the second tells little.
#include <cstdint>
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
  return answer(device, value, 0x1ULL | 0x20ULL);
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *pending = 0;
  return answer(device, current, 1U);
}
}
