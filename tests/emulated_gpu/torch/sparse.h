// Operators on sparse CUDA tensors.
#pragma once
#include "tests/emulated_gpu/torch/call.h"

namespace emulated_gpu {

/// The kernel for sparse CUDA tensors of any operator that has one for sparse CPU tensors. It waits for its
/// stream, as most of LibTorch's do to learn how many elements there are; its results come late.
void run_sparse_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);

/// Returns true if LibTorch's own kernel for sparse CUDA tensors stays, since it launches nothing.
bool keeps_sparse_kernel(const c10::OperatorHandle& op);

}  // namespace emulated_gpu
