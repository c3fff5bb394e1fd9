#include "speedtorch/tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <sstream>

#include "speedtorch/error.h"
#include "speedtorch/system/pages.h"

namespace speedtorch {

std::vector<std::int64_t> joined_sizes(at::IntArrayRef first, at::IntArrayRef then) {
  auto sizes = first.vec();
  sizes.insert(sizes.end(), then.begin(), then.end());
  return sizes;
}

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

std::string layout_of(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_contiguous()) return shape_of(tensor);
  std::ostringstream text;
  text << shape_of(tensor) << " with strides " << tensor.strides();
  return text.str();
}

std::string first_difference(const at::Tensor& now, const at::Tensor& before) {
  if (now.numel() != before.numel())
    return std::to_string(now.numel()) + " rows here and " + std::to_string(before.numel()) + " there";
  const auto here = now.cpu().flatten(), there = before.cpu().flatten();
  for (std::int64_t k = 0; k < here.numel(); ++k) {
    const auto row = here[k].item<std::int64_t>(), was = there[k].item<std::int64_t>();
    if (row != was)
      return "position " + std::to_string(k) + " is row " + std::to_string(row) + " here and was row " +
             std::to_string(was);
  }
  return "nothing differs but the shape, " + shape_of(now) + " here and " + shape_of(before) + " there";
}

at::Tensor resolved(const at::Tensor& tensor) {
  if (!is_lazy(tensor)) return tensor;
  if (tensor._is_zerotensor()) return at::zeros(tensor.sizes(), tensor.options().requires_grad(false));
  return tensor.detach().resolve_conj().resolve_neg();
}

void refuse_lazy(const at::Tensor& tensor, const std::string& name) {
  const std::string why =
      tensor._is_zerotensor() ? "is of zeros that have no memory; zeros() makes some that have"
      : tensor.is_conj()      ? "is a conj() that LibTorch has not computed yet; call resolve_conj()"
                              : "is a negation that LibTorch has not computed yet; call resolve_neg()";
  throw LazyTensorError(name + " (" + shape_of(tensor) + ") " + why + " before it is written to");
}

// Writing to new memory faults it in, which takes longer than moving the rows. In pages of 2 MiB, a gather
// into a new tensor of 64 MiB took 20 ms instead of 30. malloc may reuse smaller blocks, and then the advice
// costs a tenth (16 MiB: 0.9 ms instead of 0.7).
at::Tensor new_output(at::IntArrayRef sizes, const at::TensorOptions& options) {
  constexpr std::size_t kWorthwhile = std::size_t{32} << 20;
  auto out = at::empty(sizes, options);
  if (out.is_cpu() && out.nbytes() >= kWorthwhile)
    advise_huge_pages(static_cast<std::byte*>(out.data_ptr()), static_cast<std::int64_t>(out.nbytes()));
  return out;
}

}  // namespace speedtorch
