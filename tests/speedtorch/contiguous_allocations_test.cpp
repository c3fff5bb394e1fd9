// A program of its own, because it replaces operator new.

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

#include "speedtorch/contiguous_optimizer.h"
#include "tests/kernels/counted_allocations.h"

namespace speedtorch {
namespace {

TEST(ContiguousAllocations, AreNoneInAStep) {
  std::vector<at::Tensor> given;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const std::int64_t count : {1, 70, 90'000})
      given.push_back(at::randn({count}).to(dtype).set_requires_grad(true));
  }
  ContiguousOptimizer optimizer(given, AdamOptions{});
  const StepOptions all{.max_value = 1.0,
                        .max_norm = 1.0,
                        .zero_grad = true,
                        .skip_non_finite = true,
                        .found_inf = at::zeros({1})};
  for (int step = 0; step < 6; ++step) {
    for (std::size_t k = 0; k < given.size(); ++k) {
      if (step % 2 == 0 || k % 2 == 0) given[k].grad().fill_(1);  // else there are more runs
    }
    const auto before = kernels::allocations();
    optimizer.step(all);
    if (step > 0) {  // the first finds room for the norm
      EXPECT_EQ(kernels::allocations(), before) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace speedtorch
