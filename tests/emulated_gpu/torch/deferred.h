// Work of LibTorch's operators on the emulated streams.
#pragma once
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <string>

namespace emulated_gpu {

/// Turns off autograd, autocast and observers for calls of LibTorch inside a CPU kernel: a GPU's kernel has
/// none of them inside.
class KernelScope {
 public:
  KernelScope();

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  at::RecordFunctionGuard no_observers_;
};

/// Queues `work` on the current stream of the current device. It may run several times if the stream is being
/// captured. An error that it throws becomes a fault of the device: LibTorch's kernels assert on the device
/// too.
/// @throws c10::Error what a failed launch throws
void defer(std::string operation, std::function<void()> work);

/// Waits for the current stream, as an operator does that needs values on the host.
void wait_for_stream();

}  // namespace emulated_gpu
