/// The library's CUDA half in a build without CUDA. Each function says what is missing. Callers check
/// cuda_status() or the placement first, so most are never called.
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/version.h>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/files/registered_file.h"
#include "speedtorch/memory/cuda_memory.h"
#include "speedtorch/optim/device_step.h"
#include "speedtorch/rows/cuda_index_errors.h"
#include "speedtorch/rows/gpu_rows.h"
#include "speedtorch/rows/hybrid.h"

namespace speedtorch {
namespace {

[[noreturn]] void refuse(const char* what) { throw PlacementError(cuda_refusal(what)); }

}  // namespace

// cuda_runtime.h

bool built_with_cuda() { return false; }

CudaStatus probe_cuda() {
  CudaStatus status;
  status.found = "LibTorch " TORCH_VERSION ", stbench built without CUDA";
  status.missing = "a build with CUDA";
  status.cure = "build with a CUDA LibTorch and a CUDA compiler (docs/install.md)";
  return status;
}

namespace cuda_runtime {

at::Device current_gpu() { refuse("a GPU"); }
void synchronize(at::Device) { refuse("a GPU"); }
CudaMemory memory(at::Device) { refuse("a GPU"); }
std::int64_t free_bytes(at::Device) { refuse("a GPU"); }
std::int64_t cache_bytes(at::Device) { refuse("a GPU"); }

void empty_cache() {}

}  // namespace cuda_runtime

// memory/cuda_memory.h

std::shared_ptr<Memory> allocate_pinned(std::int64_t, at::Device) { refuse("pinned memory"); }
std::shared_ptr<Memory> pin(std::shared_ptr<Memory>, at::Device) { refuse("pinned memory"); }
std::shared_ptr<Memory> allocate_device(std::int64_t, at::Device) { refuse("device memory"); }

// files/registered_file.h

std::string registration_refusal(std::int64_t, at::Device) { refuse("a file that a GPU reads in place"); }
std::shared_ptr<Memory> register_file(std::shared_ptr<Memory>, std::span<std::byte>, at::Device) {
  refuse("a file that a GPU reads in place");
}

// rows/gpu_rows.h and rows/cuda_index_errors.h

void gather_on_gpu(const at::Tensor&, kernels::ConstRows, const at::Tensor&, kernels::Rows,
                   const RowsOptions&) {
  refuse("a gather on a GPU");
}
void scatter_on_gpu(kernels::ConstRows, const at::Tensor&, kernels::Rows, const at::Tensor&,
                    const RowsOptions&) {
  refuse("a scatter on a GPU");
}
std::int64_t workspace_bytes_on_gpu(const at::Tensor&, const at::Tensor&, IndexOrder) {
  refuse("a gather on a GPU");
}
void stream_copy_on_gpu(std::byte*, const std::byte*, std::int64_t, at::Device) { refuse("a copy on a GPU"); }
kernels::IndexErrors take_cuda_index_errors(at::Device) { return {}; }

// rows/hybrid.h

class HybridGather::Impl {};

HybridGather::HybridGather(const at::Tensor&, const at::Tensor&, std::int64_t, std::optional<double>) {
  refuse("the hybrid gather");
}
HybridGather::~HybridGather() = default;
void HybridGather::gather(const at::Tensor&, const at::Tensor&, at::Tensor&) { refuse("the hybrid gather"); }
const HybridRates& HybridGather::rates() const { refuse("the hybrid gather"); }
double HybridGather::share() const { refuse("the hybrid gather"); }

// contiguous/flat_buffers.h

/// Computed by LibTorch, because clipping serves other optimizers too. Copies the gradient in float64.
double square_sum_on_gpu(const at::Tensor& gradient, const kernels::GradientChange& change, SumScratch&) {
  const auto unscaled = gradient.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true)
                            .mul_(change.inv_scale)
                            .clamp_(-change.max_value, change.max_value);
  const auto norm = at::linalg_vector_norm(unscaled).item<double>();
  return norm * norm;
}

template <class T>
void step_on_gpu(at::Device, const FlatPlan<T>&, const kernels::GradientChange&, bool) {
  refuse("an optimizer's step on a GPU");
}
template void step_on_gpu(at::Device, const FlatPlan<float>&, const kernels::GradientChange&, bool);
template void step_on_gpu(at::Device, const FlatPlan<double>&, const kernels::GradientChange&, bool);

// optim/device_step.h

template <class T>
void DeviceStep<T>::rows(const kernels::AnyUpdate<T>&, const kernels::StepTables<T>&, const at::Tensor&,
                         const at::Tensor&, std::int64_t) {
  refuse("an optimizer's step on a GPU");
}
template <class T>
void DeviceStep<T>::all(const kernels::AnyUpdate<T>&, const kernels::StepTables<T>&, const at::Tensor&,
                        std::int64_t) {
  refuse("an optimizer's step on a GPU");
}
template class DeviceStep<float>;
template class DeviceStep<double>;

}  // namespace speedtorch
