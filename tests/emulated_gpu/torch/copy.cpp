#include "tests/emulated_gpu/torch/copy.h"

#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>

#include <utility>

#include "tests/emulated_gpu/torch/deferred.h"
#include "tests/emulated_gpu/torch/host_tensor.h"

namespace emulated_gpu {
namespace {

/// Returns true if LibTorch copies the bytes by cudaMemcpyAsync.
bool lie_alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.is_conj() != b.is_conj() || a.is_neg() != b.is_neg())
    return false;
  if (a.sizes() != b.sizes()) return false;
  return (a.is_contiguous() && b.is_contiguous()) ||
         (a.strides() == b.strides() && a.is_non_overlapping_and_dense());
}

void copy_on_device(const at::Tensor& to, const at::Tensor& from) {
  const c10::cuda::CUDAGuard guard(to.device());
  const FrozenTensor target(to), source(from);
  defer("aten::copy_", [target, source] {
    HostStorages storages;
    target.on_host(storages).copy_(source.on_host(storages));
    target.mark_written();
  });
}

}  // namespace

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool both_on_gpus = to.is_cuda() && from.is_cuda();
  if (to.numel() == 0 || !both_on_gpus || lie_alike(to, from))
    return at::native::copy_(to, from, non_blocking);
  if (to.device() == from.device()) {
    copy_on_device(to, from);
    return to;
  }
  // LibTorch copies between GPUs what lies alike, and rearranges and converts on one of them.
  const auto here = at::empty_like(to, at::MemoryFormat::Contiguous);
  const auto there = at::empty_like(here, here.options().device(from.device()));
  copy_on_device(there, from);
  here.copy_(there, non_blocking);
  to.copy_(here, non_blocking);
  return to;
}

}  // namespace emulated_gpu
