// Counts the allocations of a step. A separate program, because it replaces operator new.

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>

#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "tests/speedtorch/kernels/counted_allocations.h"

namespace speedtorch {
namespace {

TEST(ContiguousAllocations, StepAllocatesNothing) {
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
      if (step % 2 == 0 || k % 2 == 0)
        given[k].grad().fill_(1);  // unequal use splits the step into more runs
    }
    const auto before = kernels::allocations();
    optimizer.step(all);
    if (step > 0) {  // the first step allocates scratch for the norm
      EXPECT_EQ(kernels::allocations(), before) << "step " << step;
    }
  }
}

/// Counts LibTorch's operations in `work`. On a GPU most of them are one launch each; our own launches are
/// not included.
template <class Work>
int operations(Work work) {
  static int count = 0;
  count = 0;
  const auto callback = at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
        ++count;
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(callback);
  return count;
}

std::vector<at::Tensor> with_gradients(int count) {
  std::vector<at::Tensor> tensors;
  for (int k = 0; k < count; ++k) {
    tensors.push_back(at::randn({7 + k}).set_requires_grad(true));
    tensors.back().mutable_grad() = at::ones({7 + k});
  }
  return tensors;
}

TEST(ContiguousOperations, ClippedStepRunsAsManyFor200TensorsAsFor2) {
  const auto ours = [](int count) {
    ContiguousOptimizer optimizer(with_gradients(count), AdamOptions{});
    return operations([&] { optimizer.step({.max_norm = 1.0, .zero_grad = true}); });
  };
  const auto libtorchs = [](int count) {
    const auto tensors = with_gradients(count);
    torch::optim::Adam optimizer(tensors, torch::optim::AdamOptions());
    return operations([&] {
      torch::nn::utils::clip_grad_norm_(tensors, 1.0);
      optimizer.step();
      optimizer.zero_grad(false);
    });
  };
  EXPECT_EQ(ours(200), ours(2));
  EXPECT_LT(ours(200), 20);
  EXPECT_GT(libtorchs(200), 200);  // control: the counter sees LibTorch's operations
}

}  // namespace
}  // namespace speedtorch
