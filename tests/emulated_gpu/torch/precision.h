// Half-precision numbers in CPU kernels.
#pragma once
#include "tests/emulated_gpu/torch/call.h"

namespace emulated_gpu {

/// Runs an operator's CPU kernel; the results replace the arguments on the stack. What only CUDA kernels do
/// with half-precision numbers is done in single precision.
void run_cpu_kernel(const c10::OperatorHandle& op, Stack& stack);

}  // namespace emulated_gpu
