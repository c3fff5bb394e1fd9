#include "speedtorch/rows/cuda_index_errors.h"

#include <c10/core/DeviceGuard.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <utility>

#include "speedtorch/kernels/cuda/device.h"

namespace speedtorch {
namespace {

using kernels::check_cuda;
using kernels::IndexErrors;

/// Allows this thread calls that a capture on another stream forbids by default. The counter has nothing to
/// do with what is captured.
class AllowedWhileCapturing {
 public:
  AllowedWhileCapturing() { exchange(); }
  ~AllowedWhileCapturing() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  AllowedWhileCapturing(const AllowedWhileCapturing&) = delete;

 private:
  void exchange() {
    check_cuda(cudaThreadExchangeStreamCaptureMode(&mode_), "cudaThreadExchangeStreamCaptureMode");
  }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Creates a counter with its defaults, written on a stream of its own.
IndexErrors* new_counter() {
  const AllowedWhileCapturing allowed;
  const IndexErrors none;
  void* counter = nullptr;
  cudaStream_t stream = nullptr;
  check_cuda(cudaMalloc(&counter, sizeof none), "cudaMalloc");
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaMemcpyAsync(counter, &none, sizeof none, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return static_cast<IndexErrors*>(counter);
}

struct Counter {
  IndexErrors* on_device = nullptr;
  unsigned long long reported = 0;  // of its count; only the thread that takes uses it
};

/// Returns the counter of the current device. Its address never changes.
Counter& current_counter(const c10::DeviceGuard& guard) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, Counter> counters;
  const std::lock_guard lock(mutex);
  Counter& counter = counters[guard.current_device().index()];
  if (counter.on_device == nullptr) counter.on_device = new_counter();
  return counter;
}

/// Resets the smallest position for all later calls. Synchronizes, because a copy from pageable memory may
/// return before it has arrived, and other streams do not wait for it.
void reset_position(IndexErrors* counter) {
  const auto none = IndexErrors{}.first_position;
  check_cuda(cudaMemcpy(&counter->first_position, &none, sizeof none, cudaMemcpyHostToDevice), "cudaMemcpy");
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace

IndexErrors* cuda_index_errors(at::Device device) {
  const c10::DeviceGuard guard(device);
  return current_counter(guard).on_device;
}

IndexErrors take_cuda_index_errors(at::Device device) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const c10::DeviceGuard guard(device);
  Counter& counter = current_counter(guard);
  IndexErrors taken;
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_cuda(cudaMemcpy(&taken, counter.on_device, sizeof taken, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (taken.count == counter.reported) return {};
  reset_position(counter.on_device);
  taken.count -= std::exchange(counter.reported, taken.count);
  // All were counted while the last call reset the position, which lost theirs.
  if (taken.first_position == IndexErrors{}.first_position)
    taken.first_position = static_cast<unsigned long long>(taken.seen_position);
  return taken;
}

}  // namespace speedtorch
