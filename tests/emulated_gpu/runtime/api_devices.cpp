// CUDA's functions about devices and versions.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include <cstdio>
#include <cstring>

#include "tests/emulated_gpu/runtime/device.h"
#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

bool exists(int device) { return device >= 0 && device < settings().devices; }

/// Calls the body if the device exists; asking about a device creates no context.
template <class Body>
cudaError_t about(const char* name, int device, Body body) {
  return call(
      name, [&](Runtime& all, Lock&) { return exists(device) ? body(all) : cudaErrorInvalidDevice; },
      Context::not_needed);
}

template <class Value>
cudaError_t tell(const char* name, Value* where, Value value) {
  return call(
      name,
      [&](Runtime&, Lock&) {
        if (where == nullptr) return cudaErrorInvalidValue;
        *where = value;
        return cudaSuccess;
      },
      Context::not_needed);
}

}  // namespace

extern "C" {

cudaError_t cudaRuntimeGetVersion(int* version) { return tell(__func__, version, cuda_version); }
cudaError_t cudaDriverGetVersion(int* version) { return tell(__func__, version, cuda_version); }

cudaError_t cudaGetDeviceCount(int* count) {
  return call(
      __func__,
      [&](Runtime&, Lock&) {
        *count = settings().devices;
        return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
      },
      Context::not_needed);
}

/// It answers after a fault too: LibTorch's guards ask in destructors that may not throw.
cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return cudaErrorInvalidValue;
  *device = thread_state().device;
  return cudaSuccess;
}

/// It creates the device's context, as it does since CUDA 12.
cudaError_t cudaSetDevice(int device) {
  return about(__func__, device, [&](Runtime& all) {
    thread_state().device = device;
    all.contexts[static_cast<std::size_t>(device)] = true;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return about(__func__, device, [&](Runtime&) {
    *properties = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return about(__func__, device, [&](Runtime&) {
    if (!attribute_of(device, attribute, value) && settings().trace)
      say(text("attribute ", attribute, " is reported as 0"));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return about(__func__, device, [&](Runtime&) {
    if (id == nullptr || length <= static_cast<int>(bus_id(device).size())) return cudaErrorInvalidValue;
    std::snprintf(id, static_cast<std::size_t>(length), "%s", bus_id(device).c_str());
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  return call(
      __func__,
      [&](Runtime&, Lock&) {
        for (int one = 0; one < settings().devices; ++one) {
          if (bus_id(one) != id) continue;
          *device = one;
          return cudaSuccess;
        }
        return cudaErrorInvalidDevice;
      },
      Context::not_needed);
}

cudaError_t cudaDeviceSynchronize() {
  return call(__func__, [](Runtime& all, Lock& lock) {
    if (forbidden(all, "cudaDeviceSynchronize")) return cudaErrorStreamCaptureUnsupported;
    all.streams.finish_device(lock, thread_state().device);
    return all.sticky();
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return about(__func__, device, [&](Runtime&) {
    if (!exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call(__func__, [&](Runtime& all, Lock&) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(peer) || peer == thread_state().device) return cudaErrorInvalidDevice;
    return all.memory.enable_peer(thread_state().device, peer) ? cudaSuccess
                                                               : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    if (!exists(peer)) return cudaErrorInvalidDevice;
    all.streams.finish_device(lock, thread_state().device);
    return all.memory.disable_peer(thread_state().device, peer) ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return call(__func__, [&](Runtime& all, Lock&) {
    const auto found = all.limits.find(limit);
    if (value == nullptr || found == all.limits.end()) return cudaErrorUnsupportedLimit;
    *value = found->second;
    return cudaSuccess;
  });
}

/// The value is only kept: interpreted kernels have as much stack as they declare.
cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return call(__func__, [&](Runtime& all, Lock&) {
    const auto found = all.limits.find(limit);
    if (found == all.limits.end()) return cudaErrorUnsupportedLimit;
    found->second = value;
    return cudaSuccess;
  });
}

}  // extern "C"
