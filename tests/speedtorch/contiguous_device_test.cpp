// Contiguous parameters on a GPU against the same on the host. Skipped where there is none.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "speedtorch/contiguous_optimizer.h"
#include "speedtorch/cuda.h"

namespace speedtorch {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors on(at::Device device, at::ScalarType dtype) {
  at::manual_seed(3);
  Tensors all;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{17, 5}, {}, {3}, {100'000}})
    all.push_back(at::randn(shape).to(dtype).to(device).set_requires_grad(true));
  return all;
}

void step(ContiguousOptimizer& optimizer, int number) {
  at::manual_seed(static_cast<std::uint64_t>(100 + number));
  for (const auto& one : optimizer.parameters())
    one.grad().copy_(at::randn(one.sizes()).to(one.scalar_type()));
  optimizer.step({.inv_scale = 0.5, .max_value = 1.5, .max_norm = 10.0, .zero_grad = true});
}

TEST(ContiguousOnDevice, StepsAsOnTheHost) {
  const auto& status = cuda_status();
  if (!status.available) GTEST_SKIP() << status.found << "; missing: " << status.missing;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const UpdateOptions& options : std::vector<UpdateOptions>{
             AdamOptions{}, AdamWOptions{.amsgrad = true}, SGDOptions{.momentum = 0.9, .nesterov = true},
             AdagradOptions{}, RMSpropOptions{.momentum = 0.9, .centered = true}, AdadeltaOptions{},
             AdamaxOptions{}, ASGDOptions{}, RpropOptions{}}) {
      const auto found = on(at::Device(at::kCUDA, 0), dtype);
      const auto wanted = on(at::kCPU, dtype);
      ContiguousOptimizer ours(found, options);
      ContiguousOptimizer reference(wanted, options);
      for (int number = 1; number <= 5; ++number) {
        step(ours, number);
        step(reference, number);
        EXPECT_NEAR(ours.gradient_norm(), reference.gradient_norm(), 1e-12 * reference.gradient_norm());
      }
      for (std::size_t k = 0; k < found.size(); ++k)
        EXPECT_TRUE(found[k].detach().to(at::kCPU).allclose(wanted[k].detach(), 1e-5, 1e-6))
            << options.index();
      for (const auto& bucket : ours.parameters().buckets())
        EXPECT_EQ(bucket.gradient.abs().sum().item<double>(), 0);
    }
  }
}

// Two buckets use one scratch.
TEST(ContiguousOnDevice, ClipsAsOnTheHost) {
  const auto& status = cuda_status();
  if (!status.available) GTEST_SKIP() << status.found << "; missing: " << status.missing;
  const auto of_both = [](at::Device device) {
    auto all = on(device, at::kFloat);
    for (const auto dtype : {at::kBFloat16, at::kDouble}) {
      for (const auto& one : on(device, dtype)) all.push_back(one);
    }
    ContiguousParameters parameters(all);
    at::manual_seed(5);
    for (const auto& one : parameters)
      one.grad().copy_(at::randn(one.sizes(), at::kDouble).to(one.scalar_type()));
    parameters.gradients_used();
    return parameters;
  };
  auto found = of_both(at::Device(at::kCUDA, 0));
  auto wanted = of_both(at::kCPU);
  const double norm = wanted.clip_grad_norm(10.0);
  EXPECT_NEAR(found.clip_grad_norm(10.0), norm, 1e-12 * norm);
  for (std::size_t k = 0; k < wanted.buckets().size(); ++k) {
    EXPECT_TRUE(found.buckets()[k].gradient.to(at::kCPU).allclose(wanted.buckets()[k].gradient, 1e-6, 0))
        << k;
  }
  EXPECT_FALSE(found.used(0)) << "a norm writes nothing, and clipping is no use";
}

}  // namespace
}  // namespace speedtorch
