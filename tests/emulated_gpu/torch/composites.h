// Operators that only LibTorch's CUDA half has, or that it would run by cuDNN, made of other operators.
#pragma once
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/operator_name.h>

#include <utility>
#include <vector>

namespace emulated_gpu {

/// Returns the operators' names and their kernels for CUDA tensors.
std::vector<std::pair<c10::OperatorName, c10::KernelFunction>> composites();

}  // namespace emulated_gpu
