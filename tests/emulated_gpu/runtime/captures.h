// The captures under way, and what they forbid.
#pragma once
#include <memory>
#include <vector>

#include "tests/emulated_gpu/runtime/work.h"

namespace emulated_gpu {

/// Guarded by the runtime's lock.
class Captures {
 public:
  cudaError_t begin(CUstream_st* stream, cudaStreamCaptureMode mode);
  /// Ends the capture that began on `stream`; `nodes` get what was captured.
  cudaError_t end(CUstream_st* stream, std::vector<Node>* nodes);
  /// Adds work to the graph of a stream that is captured.
  static void add(CUstream_st* stream, std::string what, std::function<void()> run);
  static void record(CUevent_st* event, CUstream_st* stream);
  /// Lets `stream` wait for an event that was recorded in a capture, which it joins if it is in none.
  static cudaError_t wait(CUstream_st* stream, const CUevent_st* event);
  /// True if a call that CUDA calls unsafe is forbidden to this thread by a capture, which is then invalid.
  bool forbid(const char* call, cudaStreamCaptureMode mode_of_thread);
  /// Makes all captures of streams that the legacy stream waits for invalid.
  void spoil(int device);

 private:
  std::vector<std::shared_ptr<Capture>> captures_;
  unsigned long long last_id_ = 0;
};

}  // namespace emulated_gpu
