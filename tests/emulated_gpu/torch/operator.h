// Operators of LibTorch on the emulated device: their CPU kernels, on the device's bytes, in the order of the
// stream.
#pragma once
#include "tests/emulated_gpu/torch/call.h"

namespace emulated_gpu {

/// The kernel for CUDA tensors of any operator that has a CPU kernel. It queues the work on the current
/// stream and returns at once, as a launch does. Only an operator that needs values on the host waits.
void run_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);

}  // namespace emulated_gpu
