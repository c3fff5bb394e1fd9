/// Small models, data and plain training steps for comparison.
#pragma once

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <functional>
#include <vector>

#include "speedtorch/infinity/infinity_batch.h"
#include "tests/speedtorch/test_device.h"

namespace speedtorch::test {

using infinity::Batch;
using infinity::Criterion;
using infinity::Data;
using infinity::Model;
using infinity::Optimizer;
using infinity::Reduction;
using infinity::Tensors;

/// 6 -> 16 -> 4 on test_device(), the same for the same seed.
inline torch::nn::Sequential mlp(at::ScalarType dtype = at::kDouble, double dropout = 0,
                                 std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  torch::nn::Sequential net(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Dropout(dropout),
                            torch::nn::Linear(16, 4));
  net->to(test_device(), dtype);
  return net;
}

struct Examples {
  at::Tensor inputs;
  at::Tensor classes;
  at::Tensor values;
};

inline Examples examples(std::int64_t samples, at::ScalarType dtype = at::kDouble, std::uint64_t seed = 2) {
  torch::manual_seed(seed);
  const auto drawn = [](const at::Tensor& on_host) { return on_host.to(test_device()); };
  return {drawn(at::randn({samples, 6}, dtype)), drawn(at::randint(0, 4, {samples}, at::kLong)),
          drawn(at::randn({samples, 4}, dtype))};
}

template <class Net>
Tensors gradients_of(const Net& net) {
  Tensors all;
  for (const at::Tensor& parameter : net->parameters()) all.push_back(parameter.grad().clone());
  return all;
}

template <class Net>
Tensors parameters_of(const Net& net) {
  Tensors all;
  for (const at::Tensor& parameter : net->parameters()) all.push_back(parameter.detach().clone());
  return all;
}

/// a - b| / |b| over all tensors.
inline double distance(const Tensors& a, const Tensors& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor wanted = b.at(i).to(at::kDouble);
    difference += (a[i].to(at::kDouble) - wanted).square().sum().item<double>();
    size += wanted.square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

inline bool bitwise_equal(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a[i].equal(b[i])) return false;
  return true;
}

/// A clock by which each micro-batch takes a second, so that no result depends on the machine's speed.
inline std::function<double()> counting_clock() {
  return [now = 0.0]() mutable { return now += 1; };
}

/// Options without warnings.
inline InfinityBatchOptions quiet(std::int64_t micro_batch = 0) {
  InfinityBatchOptions options;
  options.micro_batch.fixed = micro_batch;
  options.micro_batch.clock = counting_clock();
  options.warnings = infinity::WarningPlan::silent();
  return options;
}

/// Options that collect warnings. It must outlive their users.
struct Heard {
  std::vector<infinity::Warning> warnings;
  std::vector<std::string> texts;
  InfinityBatchOptions options(std::int64_t micro_batch = 0) {
    InfinityBatchOptions options;
    options.micro_batch.fixed = micro_batch;
    options.micro_batch.clock = counting_clock();
    options.warnings = infinity::WarningPlan::beginner();
    options.warning_sink = [this](infinity::Warning which, const std::string& text) {
      warnings.push_back(which);
      texts.push_back(text);
    };
    return options;
  }
};

}  // namespace speedtorch::test
