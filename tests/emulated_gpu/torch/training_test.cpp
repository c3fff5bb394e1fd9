// Training on CUDA tensors gives what it gives on the CPU: backward passes, optimizers, autocast.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/torch/trial.h"

namespace emulated_gpu {
namespace {

/// Returns the result and the gradients of its sum, weighted so that they differ.
Tensors backward(const at::Tensor& result, const Tensors& parameters) {
  auto weights = at::linspace(0.5, 1.5, result.numel(), result.options().requires_grad(false));
  (result * weights.view_as(result)).sum().backward();
  Tensors all{result.detach()};
  for (const auto& parameter : parameters) all.push_back(parameter.grad());
  return all;
}

/// Trials whose results are those of `backward()`.
struct GradientTrials : Trials {
  /// @param function of the parameters of these sizes or, where it makes further inputs, of both
  template <class F>
  void gradient(std::string name, std::vector<std::vector<std::int64_t>> sizes, F function) {
    add(std::move(name), 1e-5, [sizes = std::move(sizes), function](Inputs& in) {
      Tensors parameters;
      for (const auto& size : sizes) parameters.push_back(in.parameter(size));
      if constexpr (std::is_invocable_v<F, Tensors&, Inputs&>)
        return backward(function(parameters, in), parameters);
      else
        return backward(function(parameters), parameters);
    });
  }
};

std::vector<Trial> gradients() {
  GradientTrials trials;
  trials.gradient("mul", {{4, 3}, {3}}, [](Tensors& p) { return p[0] * p[1]; });
  trials.gradient("linear", {{4, 3}, {2, 3}, {2}},
                  [](Tensors& p) { return at::linear(p[0], p[1], p[2]).relu(); });
  trials.gradient("conv2d", {{2, 3, 6, 6}, {4, 3, 3, 3}, {4}},
                  [](Tensors& p) { return at::conv2d(p[0], p[1], p[2], 1, 1); });
  trials.gradient("conv_transpose", {{2, 3, 4, 4}, {3, 2, 3, 3}},
                  [](Tensors& p) { return at::conv_transpose2d(p[0], p[1]); });
  trials.gradient("max_pool", {{2, 3, 6, 6}}, [](Tensors& p) { return at::max_pool2d(p[0], 2); });
  trials.gradient("batch_norm", {{8, 3, 4, 4}, {3}, {3}},
                  [](Tensors& p) { return at::batch_norm(p[0], p[1], p[2], {}, {}, true, 0.1, 1e-5, true); });
  trials.gradient("layer_norm", {{5, 7}, {7}, {7}},
                  [](Tensors& p) { return at::layer_norm(p[0], {7}, p[1], p[2]); });
  trials.gradient("softmax", {{5, 7}}, [](Tensors& p) { return p[0].softmax(1); });
  trials.gradient("cross_entropy", {{5, 7}},
                  [](Tensors& p, Inputs& in) { return at::cross_entropy_loss(p[0], in.integers(7, {5})); });
  trials.gradient("embedding", {{9, 4}},
                  [](Tensors& p, Inputs& in) { return at::embedding(p[0], in.integers(9, {12})); });
  trials.gradient("embedding_bag", {{9, 4}}, [](Tensors& p, Inputs& in) {
    return std::get<0>(at::embedding_bag(p[0], in.integers(9, {6}), in.keep(at::tensor({0, 2}, at::kLong))));
  });
  trials.gradient("index_select", {{9, 4}},
                  [](Tensors& p, Inputs& in) { return p[0].index_select(0, in.integers(9, {12})); });
  trials.gradient("index", {{9, 4}},
                  [](Tensors& p, Inputs& in) { return p[0].index({in.integers(9, {12})}); });
  trials.gradient("gather", {{9, 4}}, [](Tensors& p, Inputs& in) {
    return p[0].gather(0, in.integers(9, {3, 4}));
  });
  trials.gradient("sort", {{9}}, [](Tensors& p) { return std::get<0>(p[0].sort()); });
  trials.gradient("cat", {{3, 2}, {3, 4}}, [](Tensors& p) { return at::cat({p[0], p[1]}, 1); });
  trials.gradient("attention", {{2, 3, 5, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}},
                  [](Tensors& p) { return at::scaled_dot_product_attention(p[0], p[1], p[2]); });
  trials.gradient("lstm", {{5, 2, 3}, {16, 3}, {16, 4}, {16}, {16}}, [](Tensors& p, Inputs& in) {
    return std::get<0>(at::lstm(p[0], Tensors{in.normal({1, 2, 4}), in.normal({1, 2, 4})},
                                Tensors{p[1], p[2], p[3], p[4]}, true, 1, 0, true, false, false));
  });
  trials.gradient("gru", {{5, 2, 3}, {12, 3}, {12, 4}, {12}, {12}}, [](Tensors& p, Inputs& in) {
    return std::get<0>(
        at::gru(p[0], in.normal({1, 2, 4}), Tensors{p[1], p[2], p[3], p[4]}, true, 1, 0, true, false, false));
  });
  trials.gradient("gru_without_bias", {{5, 2, 3}, {12, 3}, {12, 4}, {1, 2, 4}}, [](Tensors& p) {
    return std::get<0>(at::gru(p[0], p[3], Tensors{p[1], p[2]}, false, 1, 0, true, false, false));
  });
  trials.gradient("complex", {{4}, {4}},
                  [](Tensors& p) { return (at::complex(p[0], p[1]) * at::complex(p[1], p[0])).abs(); });
  trials.gradient("norms", {{6}, {6}}, [](Tensors& p) {
    return at::stack({p[0].norm(), p[1].var(), p[0].logsumexp(0), p[1].prod()});
  });
  return trials.list;
}

template <typename Optimizer, typename Options>
Trial optimizer(std::string name, Options options) {
  return {std::move(name),
          [options](Inputs& in) {
            const Tensors parameters{in.parameter({5, 3}), in.parameter({3})};
            Optimizer steps(parameters, options);
            const auto x = in.normal({8, 5}), y = in.normal({8, 3});
            for (int step = 0; step < 4; ++step)
              steps.step([&] {
                steps.zero_grad();
                auto loss = at::mse_loss(at::mm(x, parameters[0]) + parameters[1], y);
                loss.backward();
                return loss;
              });
            return Tensors{parameters[0].detach(), parameters[1].detach()};
          },
          1e-5};
}

std::vector<Trial> optimizers() {
  using namespace torch::optim;
  return {
      optimizer<SGD>("sgd", SGDOptions(0.1).momentum(0.9).weight_decay(0.01)),
      optimizer<Adam>("adam", AdamOptions(0.1).amsgrad(true)),
      optimizer<AdamW>("adamw", AdamWOptions(0.1)),
      optimizer<Adagrad>("adagrad", AdagradOptions(0.1)),
      optimizer<RMSprop>("rmsprop", RMSpropOptions(0.1).centered(true)),
      optimizer<LBFGS>("lbfgs", LBFGSOptions(0.1)),
  };
}

Trial autocast(std::string name, at::ScalarType type) {
  return {std::move(name),
          [type](Inputs& in) {
            const auto device = in.device().type();
            const Tensors parameters{in.parameter({5, 4}), in.parameter({5})};
            at::autocast::set_autocast_dtype(device, type);
            at::autocast::set_autocast_enabled(device, true);
            const auto result = at::linear(in.normal({3, 4}), parameters[0], parameters[1]).softmax(1);
            at::autocast::set_autocast_enabled(device, false);
            at::autocast::clear_cache();
            return backward(result.to(at::kFloat), parameters);
          },
          2e-2};
}

at::Tensor sparse(Inputs& in) {
  return at::sparse_coo_tensor(in.integers(9, {1, 12}), in.normal({12, 4}), {9, 4});
}

std::vector<Trial> sparse_tensors() {
  Trials trials;
  trials.add("coalesce", [](Inputs& in) {
    const auto x = sparse(in).coalesce();
    return Tensors{x.indices(), x.values()};
  });
  trials.add("to_dense", [](Inputs& in) { return sparse(in).to_dense(); });
  trials.add("add_to_dense", [](Inputs& in) { return in.normal({9, 4}).add_(sparse(in), 0.5); });
  trials.add("add", [](Inputs& in) { return (sparse(in) + sparse(in)).to_dense(); });
  trials.add("mul_in_place", [](Inputs& in) {
    auto x = sparse(in).coalesce();
    return Tensors{x.mul_(2).to_dense()};
  });
  trials.add("sum", [](Inputs& in) { return at::sum(sparse(in).to_dense()); });
  trials.add("mm", [](Inputs& in) {
    return at::sparse_coo_tensor(in.integers(9, {2, 12}), in.normal({12}), {9, 9}).mm(in.normal({9, 3}));
  });
  trials.add("embedding", [](Inputs& in) {
    const auto table = in.parameter({9, 4});
    at::embedding(table, in.integers(9, {12}), -1, false, /*sparse=*/true).pow(2).sum().backward();
    torch::optim::SGD({table}, torch::optim::SGDOptions(0.1)).step();
    return Tensors{table.grad().coalesce().values(), table.detach()};
  });
  return trials.list;
}

INSTANTIATE_TEST_SUITE_P(Sparse, Operators, testing::ValuesIn(sparse_tensors()), trial_name);
INSTANTIATE_TEST_SUITE_P(Gradients, Operators, testing::ValuesIn(gradients()), trial_name);
INSTANTIATE_TEST_SUITE_P(Optimizers, Operators, testing::ValuesIn(optimizers()), trial_name);
INSTANTIATE_TEST_SUITE_P(Autocast, Operators,
                         testing::Values(autocast("half", at::kHalf), autocast("bfloat16", at::kBFloat16)),
                         trial_name);

}  // namespace
}  // namespace emulated_gpu
