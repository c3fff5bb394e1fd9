// CUDA's functions for streams and host functions.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include <algorithm>

#include "tests/emulated_gpu/runtime/host_function_watch.h"
#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

constexpr int lowest_priority = 0, highest_priority = -5;

cudaError_t create(const char* name, cudaStream_t* stream, unsigned flags, int priority) {
  return call(name, [&](Runtime& all, Lock&) {
    if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0)
      return cudaErrorInvalidValue;
    *stream = all.streams.create(thread_state().device, flags,
                                 std::clamp(priority, highest_priority, lowest_priority));
    return cudaSuccess;
  });
}

/// Calls the body with the stream behind a handle.
template <class Body>
cudaError_t with_stream(const char* name, cudaStream_t handle, Body body) {
  return call(name, [&](Runtime& all, Lock& lock) {
    auto* const stream = all.streams.find(handle, thread_state().device);
    if (stream != nullptr) return body(all, lock, *stream);
    say(text(name, ": there is no such stream (any more)"));
    return cudaErrorInvalidResourceHandle;
  });
}

/// A stream that is captured can neither be waited for nor asked.
cudaError_t check_not_captured(Runtime& all, CUstream_st& stream, const char* name) {
  if (stream.capture != nullptr) stream.capture->invalid = true;
  const bool refused = stream.capture != nullptr || forbidden(all, name);
  return refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

/// The work after which a stream has done all that was asked of it. The legacy stream waits for others.
WorkPointer end_of(Runtime& all, CUstream_st& stream) {
  if (stream.legacy) return all.streams.push(&stream, "end of the legacy stream", nullptr);
  return stream.last;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create(__func__, stream, cudaStreamDefault, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create(__func__, stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create(__func__, stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return with_stream(__func__, handle, [](Runtime& all, Lock&, CUstream_st& stream) {
    if (stream.legacy) return cudaErrorInvalidResourceHandle;
    if (stream.capture != nullptr) stream.capture->invalid = true;
    all.streams.destroy(&stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream(__func__, handle, [](Runtime& all, Lock& lock, CUstream_st& stream) {
    if (const auto error = check_not_captured(all, stream, "cudaStreamSynchronize"); error != cudaSuccess)
      return error;
    all.streams.finish(lock, end_of(all, stream));
    return all.sticky();
  });
}

/// Each question lets one piece of work run, so that a program that polls gets there.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream(__func__, handle, [](Runtime& all, Lock& lock, CUstream_st& stream) {
    if (const auto error = check_not_captured(all, stream, "cudaStreamQuery"); error != cudaSuccess)
      return error;
    const auto last = stream.last;
    if (last == nullptr || last->done()) return cudaSuccess;
    all.streams.progress(lock, last);
    if (all.sticky() != cudaSuccess) return all.sticky();
    return last->done() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  return with_stream(__func__, handle, [&](Runtime& all, Lock& lock, CUstream_st& stream) {
    if (all.events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    const bool external = (flags & cudaEventWaitExternal) != 0;
    if (event->capture != nullptr && !external) return Captures::wait(&stream, event);
    if (stream.capture != nullptr) {
      if (external) return cudaErrorNotSupported;
      // CUDA refuses work from outside of a capture in it, unless that was done before.
      if (event->recorded == nullptr || event->recorded->done()) return cudaSuccess;
      stream.capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (event->recorded == nullptr || event->recorded->done()) return cudaSuccess;
    const auto work = all.streams.push(&stream, "wait for an event", nullptr);
    work->after.push_back(event->recorded);
    if (!settings().lazy) all.streams.finish(lock, work);
    return all.sticky();
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream(__func__, handle, [&](Runtime&, Lock&, CUstream_st& stream) {
    *priority = stream.priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return with_stream(__func__, handle, [&](Runtime&, Lock&, CUstream_st& stream) {
    *flags = stream.flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return with_stream(__func__, handle, [&](Runtime&, Lock&, CUstream_st& stream) {
    *device = stream.device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call(__func__, [&](Runtime&, Lock&) {
    if (least != nullptr) *least = lowest_priority;
    if (greatest != nullptr) *greatest = highest_priority;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    if (function == nullptr) return cudaErrorInvalidValue;
    WorkPointer work;
    const auto error = enqueue(
        all, lock, handle, "a host function", [=] { function(data); }, &work);
    watch_host_function(work);
    return error;
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* data,
                                  unsigned flags) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    const auto* const stream = all.streams.find(handle, thread_state().device);
    if (function == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (stream != nullptr && stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
    WorkPointer work;
    const auto error = enqueue(
        all, lock, handle, "a callback", [=] { function(handle, runtime().sticky(), data); }, &work);
    watch_host_function(work);
    return error;
  });
}

}  // extern "C"
