#include "speedtorch/contiguous/elementwise.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "speedtorch/contiguous/parameters.h"

namespace speedtorch {

void check_elementwise(const std::string& optimizer, const MakeStep& make_step) {
  const auto numbers = [](std::int64_t seed, at::IntArrayRef shape) {
    auto tensor = at::zeros(shape, at::kDouble);
    for (std::int64_t k = 0; k < tensor.numel(); ++k) {
      const double angle = static_cast<double>(17 * seed + k);
      tensor.data_ptr<double>()[k] = static_cast<double>(seed) * std::sin(angle * angle);
    }
    return tensor;
  };
  const std::vector<std::vector<std::int64_t>> shapes = {{4, 3}, {5}, {2, 2, 2}};
  std::vector<at::Tensor> apart;
  std::vector<at::Tensor> together;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    for (auto* list : {&apart, &together})
      list->push_back(numbers(static_cast<std::int64_t>(k) + 1, shapes[k]).set_requires_grad(true));
  }
  ContiguousParameters flat(together);
  const auto step_apart = make_step(apart);
  const auto step_together = make_step(flat.contiguous());
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const auto gradient = numbers(static_cast<std::int64_t>(k) + 4 * step, shapes[k]);
      apart[k].mutable_grad() = gradient;
      together[k].grad().copy_(gradient);
    }
    step_apart();
    step_together();
  }
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    if (apart[k].allclose(together[k], 1e-9, 1e-12)) continue;
    throw BufferError(
        optimizer +
        " depends on the shapes or norms of single parameters, so its result on one buffer differs. "
        "Pass it original() instead of contiguous(); the gradients remain in their buffer, "
        "and clipping and zeroing them remains one operation");
  }
}

}  // namespace speedtorch
