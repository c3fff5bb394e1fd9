// A program of its own, because it replaces operator new.

#include <ATen/ops/randn.h>
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
  const StepOptions all{.max_value = 1.0, .max_norm = 1.0, .zero_grad = true};
  for (int step = 0; step < 3; ++step) {
    for (const auto& one : given) one.grad().fill_(1);
    const auto before = kernels::allocations();
    optimizer.step(all);
    if (step > 0) {  // the first finds room for the norm
      EXPECT_EQ(kernels::allocations(), before) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace speedtorch
