#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <numeric>

#include "speedtorch/contiguous/flat_buffers.h"
#include "speedtorch/kernels/cuda/device.h"
#include "speedtorch/kernels/cuda/flat_step.h"

namespace speedtorch {
namespace {

/// The host adds the partial sums, in their order.
template <class T>
double sum_on_gpu(const at::Tensor& gradient, const kernels::GradientChange& change, SumScratch& scratch) {
  const c10::cuda::CUDAGuard guard(gradient.device());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const auto sums = static_cast<std::size_t>(kernels::flat_sums(gradient.numel()));
  auto& [host, device] = scratch;
  if (host.size() < sums) host.resize(sums);
  if (!device.defined() || device.device() != gradient.device() ||
      device.numel() < static_cast<std::int64_t>(sums))
    device = at::empty({static_cast<std::int64_t>(sums)}, gradient.options().dtype(at::kDouble));
  auto* const on_device = device.data_ptr<double>();
  kernels::flat_square_sums_cuda(gradient_tables<T>(gradient), gradient.numel(), change, on_device, stream);
  kernels::check_cuda(
      cudaMemcpyAsync(host.data(), on_device, sums * sizeof(double), cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync");
  kernels::check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return std::accumulate(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(sums), 0.0);
}

}  // namespace

double square_sum_on_gpu(const at::Tensor& gradient, const kernels::GradientChange& change,
                         SumScratch& scratch) {
  return gradient.scalar_type() == at::kDouble ? sum_on_gpu<double>(gradient, change, scratch)
                                               : sum_on_gpu<float>(gradient, change, scratch);
}

template <class T>
void step_on_gpu(at::Device device, const FlatPlan<T>& plan, const kernels::GradientChange& change,
                 bool zero) {
  const c10::cuda::CUDAGuard guard(device);
  kernels::flat_step_cuda(plan.tables, plan.runs.data(), static_cast<std::int64_t>(plan.runs.size()), change,
                          zero, c10::cuda::getCurrentCUDAStream());
}

template void step_on_gpu(at::Device, const FlatPlan<float>&, const kernels::GradientChange&, bool);
template void step_on_gpu(at::Device, const FlatPlan<double>&, const kernels::GradientChange&, bool);

}  // namespace speedtorch
