// The state of the emulated runtime, and the frame that each of CUDA's functions runs in.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>

#include "tests/emulated_gpu/runtime/captures.h"
#include "tests/emulated_gpu/runtime/kernels.h"
#include "tests/emulated_gpu/runtime/memory.h"
#include "tests/emulated_gpu/runtime/streams.h"

namespace emulated_gpu {

/// Counters for EMULATED_GPU_STATISTICS.
struct Statistics {
  std::atomic<unsigned long long> launches{0}, warp_instructions{0}, thread_instructions{0}, copies{0},
      operators{0};
  std::atomic<double> kernel_milliseconds{0};
};

class Runtime {
 public:
  std::mutex mutex;  ///< of all that follows
  Memory memory;
  Streams streams;
  Captures captures;
  Kernels kernels;
  std::set<CUevent_st*> events;
  std::array<bool, max_devices> contexts{};
  std::map<cudaLimit, std::size_t> limits{
      {cudaLimitStackSize, 1024}, {cudaLimitPrintfFifoSize, 1 << 20}, {cudaLimitMallocHeapSize, 8 << 20}};
  Statistics statistics;

  /// The error that every call returns from now on: a fault of a kernel.
  [[nodiscard]] cudaError_t sticky() const { return sticky_; }
  void fail(cudaError_t error) { sticky_ = error; }

 private:
  std::atomic<cudaError_t> sticky_ = cudaSuccess;
};

/// Never destroyed: libraries call it until the process has ended.
Runtime& runtime();

/// The state that CUDA keeps per thread.
struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
};
ThreadState& thread_state();

/// Notes the error as the thread's last one.
cudaError_t note(cudaError_t error);

/// Begins a call: loads LibTorch's operators, traces, refuses. Returns an error if the call is to return it
/// at once.
cudaError_t begin_call(const char* name);

enum class Context {
  needed,     ///< the call creates the current device's context
  not_needed  ///< as for questions about devices
};

/// Runs the body of a runtime function under the lock and notes its error.
/// @param body takes the runtime and the lock
template <class Body>
cudaError_t call(const char* name, Body body, Context context = Context::needed) {
  if (const auto error = begin_call(name); error != cudaSuccess) return note(error);
  auto& all = runtime();
  Lock lock(all.mutex);
  if (context == Context::needed) {
    if (settings().devices == 0) return note(cudaErrorNoDevice);
    all.contexts[static_cast<std::size_t>(thread_state().device)] = true;
  }
  try {
    return note(body(all, lock));
  } catch (const std::bad_alloc&) {
    return note(cudaErrorMemoryAllocation);
  }
}

/// Returns the error if a capture forbids the call to this thread, and makes the capture invalid.
bool forbidden(Runtime& all, const char* call);

/// Queues work on a stream or adds it to the graph that captures it; runs it if streams are eager.
/// @param made gets the work, or null if it was captured
cudaError_t enqueue(Runtime& all, Lock& lock, cudaStream_t stream, std::string what,
                    std::function<void()> run, WorkPointer* made = nullptr);

}  // namespace emulated_gpu
