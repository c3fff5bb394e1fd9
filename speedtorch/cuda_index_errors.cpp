#include "speedtorch/cuda_index_errors.h"

#include <c10/core/DeviceGuard.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "kernels/cuda_device.h"

namespace speedtorch {
namespace {

using kernels::check_cuda;
using kernels::IndexErrors;

/// What a capture on another stream forbids by default is allowed to this thread: the counter has nothing to
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

/// A counter at its defaults, written on a stream of its own.
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

}  // namespace

IndexErrors* cuda_index_errors(at::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, IndexErrors*> counters;
  const c10::DeviceGuard guard(device);
  const std::lock_guard lock(mutex);
  auto& counter = counters[device.index()];
  if (counter == nullptr) counter = new_counter();
  return counter;
}

IndexErrors take_cuda_index_errors(at::Device device) {
  const c10::DeviceGuard guard(device);
  IndexErrors* const counter = cuda_index_errors(device);
  IndexErrors taken;
  const IndexErrors none;
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_cuda(cudaMemcpy(&taken, counter, sizeof taken, cudaMemcpyDeviceToHost), "cudaMemcpy");
  if (taken.count != 0)
    check_cuda(cudaMemcpy(counter, &none, sizeof none, cudaMemcpyHostToDevice), "cudaMemcpy");
  return taken;
}

}  // namespace speedtorch
