// Rounds of optimizer steps: ours and LibTorch's in turn on parameters of the same shapes, each of which has
// the same gradients. Prints the ratio of each contestant's time to ours, round by round;
// scripts/contiguous-rounds takes the figures of several processes together.
//
//   contiguous_rounds TENSORS ELEMENTS OPTIMIZER ROUNDS THREADS PLACEMENT
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "speedtorch/contiguous_optimizer.h"
#include "speedtorch/threads.h"

namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;

struct Contestant {
  std::string name;
  std::function<void()> step;
  std::vector<double> seconds = {};
};

Tensors parameters(std::int64_t count, std::int64_t elements) {
  at::manual_seed(1);
  Tensors all;
  for (std::int64_t k = 0; k < count; ++k) {
    all.push_back(at::randn({elements}).set_requires_grad(true));
    all.back().mutable_grad() = at::randn({elements});
  }
  return all;
}

/// at::_fused_adam_ and at::_fused_sgd_ on the list, as Python's optimizers call them.
class Fused {
 public:
  Fused(const Tensors& from, bool adam) : adam_(adam) {
    for (const auto& tensor : from) {
      params_.push_back(tensor.detach());
      grads_.push_back(tensor.grad());
      first_.push_back(at::zeros_like(tensor.detach()));
      if (adam) second_.push_back(at::zeros_like(tensor.detach()));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }
  void operator()() {
    if (adam_) {
      for (auto& step : steps_) step.add_(1);
      at::_fused_adam_(params_, grads_, first_, second_, {}, steps_, 1e-3, 0.9, 0.999, 0, 1e-8, false, false);
    } else {
      at::_fused_sgd_(params_, grads_, first_, 0, 0.9, 1e-3, 0, false, false, begin_);
      begin_ = false;
    }
  }

 private:
  bool adam_;
  bool begin_ = true;
  Tensors params_, grads_, first_, second_, steps_;
};

std::unique_ptr<torch::optim::Optimizer> stock(Tensors tensors, bool adam) {
  if (adam) return std::make_unique<torch::optim::Adam>(std::move(tensors), torch::optim::AdamOptions(1e-3));
  return std::make_unique<torch::optim::SGD>(std::move(tensors),
                                             torch::optim::SGDOptions(1e-3).momentum(0.9));
}

double timed(const std::function<void()>& step) {
  const auto begin = Clock::now();
  step();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const std::int64_t count = std::stoll(argv[1]);
  const std::int64_t elements = std::stoll(argv[2]);
  const bool adam = std::string(argv[3]) == "Adam";
  const int rounds = std::stoi(argv[4]);
  speedtorch::set_threads(std::stoi(argv[5]), {});
  const std::string placement = argv[6];

  speedtorch::OptimizerOptions more;
  more.buffers.placement = placement == "hugepage"   ? speedtorch::Placement::hugepage
                           : placement == "pageable" ? speedtorch::Placement::pageable
                                                     : speedtorch::Placement::libtorch;
  const speedtorch::UpdateOptions options =
      adam ? speedtorch::UpdateOptions(speedtorch::AdamOptions{})
           : speedtorch::UpdateOptions(speedtorch::SGDOptions{.momentum = 0.9});
  speedtorch::ContiguousOptimizer ours(parameters(count, elements), options, more);
  Fused fused(parameters(count, elements), adam);
  const auto loop = stock(parameters(count, elements), adam);

  std::vector<Contestant> all;
  all.push_back({"ours", [&] { ours.step(); }});
  all.push_back({"fused", [&] { fused(); }});
  all.push_back({"per tensor", [&] { loop->step(); }});
  for (int round = -3; round < rounds; ++round) {
    for (auto& one : all) {
      const double seconds = timed(one.step);
      if (round >= 0) one.seconds.push_back(seconds);
    }
  }
  for (const auto& one : all) {
    std::vector<double> ratios;
    for (std::size_t k = 0; k < one.seconds.size(); ++k) ratios.push_back(one.seconds[k] / all[0].seconds[k]);
    std::printf("%-10s median %9.3f ms  least %9.3f ms  ratio %.3f\n", one.name.c_str(),
                1e3 * median(one.seconds), 1e3 * *std::min_element(one.seconds.begin(), one.seconds.end()),
                median(ratios));
  }
}
