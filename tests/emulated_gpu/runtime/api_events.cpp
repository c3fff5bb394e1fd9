// CUDA's functions for events.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include <algorithm>

#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

cudaError_t create(const char* name, cudaEvent_t* event, unsigned flags) {
  return call(name, [&](Runtime& all, Lock&) {
    constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (event == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
    *event = new CUevent_st;
    (*event)->flags = flags;
    (*event)->device = thread_state().device;
    all.events.insert(*event);
    return cudaSuccess;
  });
}

/// Calls the body if the event exists.
template <class Body>
cudaError_t with_event(const char* name, cudaEvent_t event, Body body) {
  return call(name, [&](Runtime& all, Lock& lock) {
    if (all.events.count(event) != 0) return body(all, lock);
    say(text(name, ": there is no such event (any more)"));
    return cudaErrorInvalidResourceHandle;
  });
}

cudaError_t record(const char* name, cudaEvent_t event, cudaStream_t handle) {
  return with_event(name, event, [&](Runtime& all, Lock& lock) {
    auto* const stream = all.streams.find(handle, thread_state().device);
    if (stream == nullptr || stream->device != event->device) {
      say(text(name, ": the event is of device ", event->device, ", the stream of ",
               stream == nullptr ? std::string("none") : text("device ", stream->device)));
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != nullptr) {
      Captures::record(event, stream);
      return cudaSuccess;
    }
    event->capture = nullptr;
    return enqueue(all, lock, handle, "record an event", nullptr, &event->recorded);
  });
}

/// An event that was recorded in a capture has no moment.
cudaError_t check_not_captured(Runtime& all, const CUevent_st& event, const char* name) {
  if (event.capture != nullptr) {
    event.capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  return forbidden(all, name) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

bool timed(const CUevent_st& event) {
  return (event.flags & cudaEventDisableTiming) == 0 && event.recorded != nullptr && event.capture == nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) { return create(__func__, event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create(__func__, event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_event(__func__, event, [&](Runtime& all, Lock&) {
    all.events.erase(event);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return record(__func__, event, stream);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return record(__func__, event, stream);
}

/// Each question lets one piece of work run, so that a program that polls gets there.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_event(__func__, event, [&](Runtime& all, Lock& lock) {
    if (const auto error = check_not_captured(all, *event, "cudaEventQuery"); error != cudaSuccess)
      return error;
    const auto recorded = event->recorded;
    if (recorded == nullptr || recorded->done()) return cudaSuccess;
    all.streams.progress(lock, recorded);
    if (all.sticky() != cudaSuccess) return all.sticky();
    return recorded->done() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_event(__func__, event, [&](Runtime& all, Lock& lock) {
    if (const auto error = check_not_captured(all, *event, "cudaEventSynchronize"); error != cudaSuccess)
      return error;
    all.streams.finish(lock, WorkPointer(event->recorded));
    return all.sticky();
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return with_event(__func__, start, [&](Runtime& all, Lock&) {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    if (all.events.count(end) == 0 || !timed(*start) || !timed(*end)) {
      say("cudaEventElapsedTime of an event that was not recorded or has no timing");
      return cudaErrorInvalidResourceHandle;
    }
    if (!start->recorded->done() || !end->recorded->done()) return cudaErrorNotReady;
    constexpr double resolution = 0.0005;  // of CUDA's events, in milliseconds
    const double between = end->recorded->milliseconds - start->recorded->milliseconds;
    *milliseconds = static_cast<float>(std::max(between, resolution));
    return cudaSuccess;
  });
}

}  // extern "C"
