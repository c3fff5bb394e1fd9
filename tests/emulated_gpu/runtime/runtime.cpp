#include "tests/emulated_gpu/runtime/runtime.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/emulated_gpu/runtime/absent.h"
#include "tests/emulated_gpu/runtime/failures.h"
#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/operators_loader.h"

namespace emulated_gpu {
namespace {

/// Set when the process ends: from then on CUDA answers that it is unloaded.
std::atomic<bool> unloading{false};
std::thread::id ending_thread;

void tell_statistics() {
  const auto& ran = runtime().statistics;
  say(text(ran.launches, " kernels, ", ran.warp_instructions, " warp instructions, ", ran.thread_instructions,
           " thread instructions, ", static_cast<long long>(ran.kernel_milliseconds.load()),
           " ms in kernels, ", ran.copies, " copies, ", ran.operators, " operators"));
}

void end_of_process() {
  ending_thread = std::this_thread::get_id();
  unloading = true;
  if (settings().statistics) tell_statistics();
}

/// LibTorch's autograd threads may still free tensors of the last backward. An error there throws in a
/// destructor, which ended one of 150 runs with SIGABRT. So other threads wait here for the end of the
/// process, longer than the ten seconds that LibTorch waits for its threads. A thread that is joined gets
/// the error.
cudaError_t call_while_unloading() {
  if (std::this_thread::get_id() != ending_thread) std::this_thread::sleep_for(std::chrono::seconds(20));
  return cudaErrorCudartUnloading;
}

/// CUDA unloads at the end of main for what was constructed before it was first used, such as static objects.
void note_first_use() {
  static const bool once = std::atexit(end_of_process) == 0;
  static_cast<void>(once);
}

}  // namespace

Runtime& runtime() {
  static Runtime* const all = [] {
    settings();
    return new Runtime;
  }();
  return *all;
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) thread_state().last_error = error;
  return error;
}

cudaError_t begin_call(const char* name) {
  load_operators();
  note_first_use();
  if (settings().trace) say(name);
  if (unloading) return call_while_unloading();
  if (in_work()) {
    say(text(name, " in a host function, where CUDA permits no calls"));
    return cudaErrorNotPermitted;
  }
  if (const auto error = runtime().sticky(); error != cudaSuccess) return error;
  return injected_failure(name);
}

int not_emulated(const char* name) {
  say(std::string(name) + " is not emulated");
  return note(cudaErrorNotSupported);
}

bool forbidden(Runtime& all, const char* call) {
  return all.captures.forbid(call, thread_state().capture_mode);
}

cudaError_t enqueue(Runtime& all, Lock& lock, cudaStream_t handle, std::string what,
                    std::function<void()> run, WorkPointer* made) {
  auto* const stream = all.streams.find(handle, thread_state().device);
  if (stream == nullptr) {
    say(what + ": there is no such stream (any more)");
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    Captures::add(stream, std::move(what), std::move(run));
    return cudaSuccess;
  }
  if (stream->legacy && all.streams.legacy_meets_capture(stream)) {
    all.captures.spoil(stream->device);
    say(what + " on the legacy default stream while a blocking stream is captured");
    return cudaErrorStreamCaptureImplicit;
  }
  all.contexts[static_cast<std::size_t>(stream->device)] = true;
  const auto work = all.streams.push(stream, std::move(what), std::move(run));
  if (made != nullptr) *made = work;
  if (!settings().lazy) all.streams.finish(lock, work);
  return all.sticky();
}

}  // namespace emulated_gpu
