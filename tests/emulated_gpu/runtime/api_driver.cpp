// The driver's functions that LibTorch looks up, in libcuda.so.1 (a link to this library) or through
// cudaGetDriverEntryPointByVersion. The driver's headers are not included: it has no more types here than
// these.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include <dlfcn.h>

#include "tests/emulated_gpu/runtime/device.h"
#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

using Result = int;  // of the driver; 0 is success
constexpr Result success = 0, invalid_device = 101, not_supported = 801;

bool exists(int device) { return device >= 0 && device < settings().devices; }

/// Stands for every driver function that is not here.
Result refuse_call() {
  say("a function of the driver that is not emulated");
  return not_supported;
}

void* find(const char* name) {
  Dl_info here{};
  void* found = nullptr;
  if (::dladdr(reinterpret_cast<void*>(&refuse_call), &here) != 0) {
    void* const library = ::dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) found = ::dlsym(library, name);
    if (library != nullptr) ::dlclose(library);
  }
  if (found == nullptr && settings().trace) say(text("the driver's ", name, " is not emulated"));
  return found != nullptr ? found : reinterpret_cast<void*>(&refuse_call);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuInit(unsigned) { return settings().devices > 0 ? success : 100; }

Result cuDriverGetVersion(int* version) {
  *version = cuda_version;
  return success;
}

Result cuGetErrorString(Result error, const char** string) {
  *string = cudaGetErrorString(static_cast<cudaError_t>(error));
  return success;
}

Result cuGetErrorName(Result error, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return success;
}

Result cuDeviceGetCount(int* count) {
  *count = settings().devices;
  return success;
}

Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return exists(ordinal) ? success : invalid_device;
}

/// The driver numbers attributes as the runtime does.
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (!exists(device)) return invalid_device;
  attribute_of(device, static_cast<cudaDeviceAttr>(attribute), value);
  return success;
}

Result cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  if (!exists(device)) return invalid_device;
  *flags = 0;
  *active = emulated_gpu_has_context(device);
  return success;
}

/// A context is the address of its device's flag; there are no others.
Result cuCtxGetCurrent(void** context) {
  auto& all = runtime();
  const auto device = static_cast<std::size_t>(thread_state().device);
  const std::lock_guard lock(all.mutex);
  *context = all.contexts[device] ? &all.contexts[device] : nullptr;
  return success;
}

}  // extern "C"
#pragma GCC visibility pop

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return call(
      __func__,
      [&](Runtime&, Lock&) {
        *function = find(name);
        if (result != nullptr) *result = cudaDriverEntryPointSuccess;
        return cudaSuccess;
      },
      Context::not_needed);
}

}  // extern "C"
