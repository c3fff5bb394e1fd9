#include "speedtorch/tensors.h"

#include <ATen/ops/zeros.h>

#include <sstream>

#include "speedtorch/error.h"

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

}  // namespace speedtorch
