// Compares contiguous parameters on a GPU with the host. Skipped without a GPU.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/kernels/cuda/flat_step.h"
#include "speedtorch/kernels/steps/flat_step.h"
#include "speedtorch/threads.h"
#include "tests/speedtorch/gpu_fixture.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch {
namespace {

class ContiguousOnDevice : public test::NeedsGpu {};

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

TEST_F(ContiguousOnDevice, StepsAsOnTheHost) {
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

// Two buckets share one scratch.
TEST_F(ContiguousOnDevice, ClipsAsOnTheHost) {
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

/// Four steps each: on the host, on the GPU, on the GPU after a cast, and on the host again. The reference is
/// a module that is only cast.
TEST_F(ContiguousOnDevice, GoesOnAfterMovesAndCasts) {
  const auto module = [] {
    at::manual_seed(4);
    return torch::nn::Linear(33, 7);
  };
  auto ours = module();
  auto theirs = module();
  ContiguousOptimizer optimizer({named(ours->named_parameters())}, AdamOptions{.lr = 0.01});
  ContiguousOptimizer reference({named(theirs->named_parameters())}, AdamOptions{.lr = 0.01});
  const auto steps = [](torch::nn::Linear& net, ContiguousOptimizer& by) {
    const auto x = at::arange(330.0).view({10, 33}).cos().to(net->weight.options());
    for (int k = 0; k < 4; ++k) {
      by.zero_grad();
      net->forward(x).square().mean().backward();
      by.step();
    }
  };
  const auto both_step = [&](at::Device device, at::ScalarType dtype) {
    ours->to(device, dtype);
    theirs->to(dtype);
    optimizer.rebuild();
    reference.rebuild();
    steps(ours, optimizer);
    steps(theirs, reference);
    for (const auto& bucket : optimizer.parameters().buckets()) EXPECT_EQ(bucket.data.device(), device);
    EXPECT_TRUE(at::allclose(ours->weight.cpu(), theirs->weight, 1e-5, 1e-6)) << device << dtype;
    EXPECT_TRUE(at::allclose(ours->bias.cpu(), theirs->bias, 1e-5, 1e-6)) << device << dtype;
  };
  const at::Device there("cuda:0");
  both_step(at::kCPU, at::kFloat);
  ours->to(there);
  EXPECT_THAT(refusal<BufferError>([&] { optimizer.step(); }), testing::HasSubstr("rebuild()"));
  both_step(there, at::kFloat);
  both_step(there, at::kDouble);
  both_step(at::kCPU, at::kFloat);
  EXPECT_EQ(optimizer.state()[0].steps, 16);
}

// The last block of a sum has elements for only some of its threads.
TEST_F(ContiguousOnDevice, SumsBucketsOfAnySize) {
  for (const std::int64_t size : {1, 500, 16'384, 17'000}) {
    const auto gradient = at::randn({size});
    ContiguousParameters parameters({at::zeros({size}, at::Device(at::kCUDA, 0)).set_requires_grad(true)});
    parameters.original()[0].grad().copy_(gradient);
    const double norm = gradient.to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(parameters.clip_grad_norm(10.0), norm, 1e-12 * norm) << size;
  }
}

// Two runs of one optimizer and one of another: a launch for each optimizer.
TEST_F(ContiguousOnDevice, StepsRunsOfSeveralOptimizers) {
  const auto sgd = kernels::make_update<float>(SGDOptions{.lr = 0.1});
  const auto adamax = kernels::make_update<float>(AdamaxOptions{.lr = 0.1});
  const std::vector<kernels::FlatRun<float>> runs{
      {0, 64, 1, &sgd}, {64, 128, 2, &sgd}, {128, 192, 1, &adamax}};
  const auto here = at::rand({4, 192});  // parameters, gradients, two states
  const auto there = here.to(at::Device(at::kCUDA, 0));
  const auto tables = [](const at::Tensor& of) {
    auto* const first = of.data_ptr<float>();
    return kernels::FlatTables<float>{first, first + 192, {first + 384, first + 576}};
  };
  kernels::flat_step<float>(tables(here), runs, {}, /*zero=*/false, parallel_for);
  kernels::flat_step_cuda(tables(there), runs.data(), std::ssize(runs), {}, /*zero=*/false, nullptr);
  EXPECT_TRUE(there.cpu().allclose(here, 1e-6, 1e-6));
}

}  // namespace
}  // namespace speedtorch
