// CUDA's functions for memory.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include "tests/emulated_gpu/runtime/copies.h"
#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

Rectangle line(std::size_t bytes) { return {.to_pitch = bytes, .from_pitch = bytes, .width = bytes}; }

cudaError_t allocate_pinned(const char* name, void** address, std::size_t bytes) {
  return call(name, [&](Runtime& all, Lock&) {
    if (address == nullptr) return cudaErrorInvalidValue;
    if (forbidden(all, name)) return cudaErrorStreamCaptureUnsupported;
    return all.memory.allocate_pinned(thread_state().device, bytes, address);
  });
}

cudaError_t fill_now(const char* name, void* to, int value, std::size_t pitch, std::size_t width,
                     std::size_t height) {
  return call(name, [&](Runtime& all, Lock& lock) {
    if (forbidden(all, name)) return cudaErrorStreamCaptureUnsupported;
    const auto error = fill_async(all, lock, to, value, pitch, width, height, nullptr, name);
    const auto* const memory = all.memory.find(to);
    // CUDA waits for a fill of host memory only.
    if (error == cudaSuccess && memory != nullptr && !memory->on_device())
      all.streams.finish_stream(lock, all.streams.legacy(thread_state().device));
    return error == cudaSuccess ? all.sticky() : error;
  });
}

/// True if a device number is one; the ends of copies between devices must lie where the caller says.
bool lies_on(Runtime& all, const void* address, int device) {
  const auto* const memory = all.memory.find(address);
  return memory == nullptr || !memory->on_device() || memory->device == device;
}

cudaError_t copy_peer(Runtime& all, Lock& lock, void* to, int to_device, const void* from, int from_device,
                      std::size_t bytes, cudaStream_t stream, const char* name) {
  if (lies_on(all, to, to_device) && lies_on(all, from, from_device))
    return copy_async(all, lock, to, from, line(bytes), cudaMemcpyDefault, stream, name);
  say(text(name, ": the memory is not on devices ", to_device, " and ", from_device));
  return cudaErrorInvalidValue;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return call(__func__, [&](Runtime& all, Lock&) {
    if (address == nullptr) return cudaErrorInvalidValue;
    if (forbidden(all, "cudaMalloc")) return cudaErrorStreamCaptureUnsupported;
    return all.memory.allocate(thread_state().device, bytes, address);
  });
}

cudaError_t cudaFree(void* address) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    if (address == nullptr) return cudaSuccess;
    if (forbidden(all, "cudaFree")) return cudaErrorStreamCaptureUnsupported;
    const auto* const memory = all.memory.at(address);
    if (memory == nullptr || !memory->on_device()) {
      say(text("cudaFree of ", address,
               ", which cudaMalloc did not return: ", all.memory.neighbours(address)));
      return cudaErrorInvalidValue;
    }
    const auto base = memory->base;
    all.streams.finish_all(lock);  // a peer's kernels may use it, too
    all.memory.release(base);
    return all.sticky();
  });
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return allocate_pinned(__func__, address, bytes);
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return allocate_pinned(__func__, address, bytes);
}

cudaError_t cudaFreeHost(void* address) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    if (address == nullptr) return cudaSuccess;
    if (forbidden(all, "cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
    const auto* const memory = all.memory.at(address);
    if (memory == nullptr || memory->kind != MemoryKind::pinned) {
      say(text("cudaFreeHost of ", address, ", which cudaHostAlloc did not return"));
      return cudaErrorInvalidValue;
    }
    const auto base = memory->base;
    all.streams.finish_all(lock);
    all.memory.release(base);
    return all.sticky();
  });
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned flags) {
  return call(__func__, [&](Runtime& all, Lock&) {
    if (forbidden(all, "cudaHostRegister")) return cudaErrorStreamCaptureUnsupported;
    return all.memory.register_host(thread_state().device, address, bytes, flags);
  });
}

/// It does not wait: work that still uses the memory faults when it runs.
cudaError_t cudaHostUnregister(void* address) {
  return call(__func__, [&](Runtime& all, Lock&) {
    if (forbidden(all, "cudaHostUnregister")) return cudaErrorStreamCaptureUnsupported;
    const auto* const memory = all.memory.at(address);
    if (memory == nullptr || memory->kind != MemoryKind::registered) return cudaErrorHostMemoryNotRegistered;
    all.memory.release(memory->base);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return call(__func__, [&](Runtime& all, Lock&) {
    const auto* const memory = all.memory.find(host);
    if (device == nullptr || flags != 0 || memory == nullptr || memory->on_device())
      return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return call(__func__, [&](Runtime& all, Lock&) {
    const auto* const memory = all.memory.find(host);
    if (memory == nullptr || memory->on_device()) return cudaErrorInvalidValue;
    *flags = cudaHostAllocPortable | cudaHostAllocMapped;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call(__func__, [&](Runtime& all, Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    const auto* const memory = all.memory.find(address);
    auto* const pointer = const_cast<void*>(address);
    attributes->type = memory == nullptr     ? cudaMemoryTypeUnregistered
                       : memory->on_device() ? cudaMemoryTypeDevice
                                             : cudaMemoryTypeHost;
    attributes->device = memory == nullptr ? cudaInvalidDeviceId : memory->device;
    attributes->devicePointer = memory == nullptr ? nullptr : pointer;
    attributes->hostPointer = memory != nullptr && memory->on_device() ? nullptr : pointer;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call(__func__, [&](Runtime& all, Lock&) {
    const int device = thread_state().device;
    *total = settings().bytes[static_cast<std::size_t>(device)];
    *free = *total - all.memory.used(device);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocManaged(void**, std::size_t, unsigned) {
  return call(__func__, [](Runtime&, Lock&) {
    say("cudaMallocManaged: managed memory is not emulated");
    return cudaErrorNotSupported;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    return copy_now(all, lock, to, from, line(bytes), kind, "cudaMemcpy");
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    return copy_async(all, lock, to, from, line(bytes), kind, stream, "cudaMemcpyAsync");
  });
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    return copy_now(all, lock, to, from, {to_pitch, from_pitch, width, height}, kind, "cudaMemcpy2D");
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    return copy_async(all, lock, to, from, {to_pitch, from_pitch, width, height}, kind, stream,
                      "cudaMemcpy2DAsync");
  });
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    if (forbidden(all, "cudaMemcpyPeer")) return cudaErrorStreamCaptureUnsupported;
    return copy_peer(all, lock, to, to_device, from, from_device, bytes, nullptr, "cudaMemcpyPeer");
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    return copy_peer(all, lock, to, to_device, from, from_device, bytes, stream, "cudaMemcpyPeerAsync");
  });
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const std::size_t* sizes,
                                 std::size_t count, cudaMemcpyAttributes* attributes,
                                 std::size_t* first_of_attributes, std::size_t attribute_count,
                                 cudaStream_t stream) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    const Batch batch{to, from, sizes, count, attributes, first_of_attributes, attribute_count};
    return copy_batch(all, lock, batch, stream, "cudaMemcpyBatchAsync");
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill_now(__func__, to, value, bytes, bytes, 1);
}

cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return fill_now(__func__, to, value, pitch, width, height);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    return fill_async(all, lock, to, value, bytes, bytes, 1, stream, "cudaMemsetAsync");
  });
}

cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    return fill_async(all, lock, to, value, pitch, width, height, stream, "cudaMemset2DAsync");
  });
}

}  // extern "C"
