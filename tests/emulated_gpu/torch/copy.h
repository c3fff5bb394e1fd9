// Copies between tensors.
#pragma once
#include <ATen/core/Tensor.h>

namespace emulated_gpu {

/// aten::copy_ for CUDA tensors. Bytes that lie alike are copied by LibTorch's own code, by cudaMemcpyAsync;
/// what its kernels would rearrange or convert is deferred to the CPU's.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking);

}  // namespace emulated_gpu
