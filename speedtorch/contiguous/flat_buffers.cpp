#include "speedtorch/contiguous/flat_buffers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <string>

#include "speedtorch/error.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kHugeFrom = 2 << 20;  // bytes; smaller buffers do not benefit from huge pages

template <class T>
double sum_on_host(const at::Tensor& gradient, const kernels::GradientChange& change,
                   std::vector<double>& scratch) {
  const auto sums = static_cast<std::size_t>(kernels::flat_sums(gradient.numel()));
  if (scratch.size() < sums) scratch.resize(sums);
  return kernels::flat_square_sum(gradient_tables<T>(gradient), gradient.numel(), change, scratch.data(),
                                  parallel_for);
}

}  // namespace

at::Tensor new_buffer(std::int64_t elements, at::ScalarType dtype, at::Device device, Placement placement) {
  const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
  if (device.is_cpu() && elements > 0 && placement != Placement::libtorch) {
    const auto kind = elements * item < kHugeFrom ? Placement::pageable : placement;
    return allocate(kind, elements * item)->tensor({elements}, dtype).zero_();
  }
  const std::int64_t spare = kBufferAlignment / item;
  auto buffer = at::zeros({elements + spare}, at::TensorOptions(dtype).device(device));
  const auto over =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(buffer.data_ptr()) % kBufferAlignment);
  return place_in(buffer, over == 0 ? 0 : (kBufferAlignment - over) / item, {elements}, {1});
}

at::Tensor place_in(const at::Tensor& buffer, std::int64_t begin, at::IntArrayRef sizes,
                    at::IntArrayRef strides) {
  auto view = at::empty({0}, buffer.options().requires_grad(false));
  view.set_(buffer.storage(), buffer.storage_offset() + begin, sizes, strides);
  return view;
}

void check_limit(const char* name, double limit) {
  if (limit >= 0) return;
  throw OptionError(std::string(name) + " is " + std::to_string(limit) + "; 0 or more is needed");
}

double square_sum(const at::Tensor& gradient, const kernels::GradientChange& change, SumScratch& scratch) {
  if (gradient.numel() == 0) return 0;
  if (!gradient.device().is_cpu()) return square_sum_on_gpu(gradient, change, scratch);
  return gradient.scalar_type() == at::kDouble ? sum_on_host<double>(gradient, change, scratch.host)
                                               : sum_on_host<float>(gradient, change, scratch.host);
}

}  // namespace speedtorch
