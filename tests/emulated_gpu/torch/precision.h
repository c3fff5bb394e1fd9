// Half-precision numbers in CPU kernels.
#pragma once
#include "tests/emulated_gpu/torch/call.h"

namespace emulated_gpu {

/// Runs an operator's CPU kernel; the results replace the arguments on the stack. Operators that only CUDA
/// kernels have for half precision run in single precision.
void run_cpu_kernel(const c10::OperatorHandle& op, Stack& stack);

}  // namespace emulated_gpu
