#include "speedtorch/tensors.h"

#include <ATen/ops/zeros.h>

#include <sstream>

#include "speedtorch/error.h"

namespace speedtorch {

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
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
