#include "benchmarks/steps/libtorch_optimizer.h"

#include <fmt/format.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "benchmarks/steps/reference_step.h"
#include "speedtorch/optim/live_states.h"
#include "speedtorch/optim/optimizers.h"

namespace stbench {
namespace {

namespace optim = torch::optim;
using Tensors = std::vector<at::Tensor>;
using Made = std::unique_ptr<optim::Optimizer>;

template <class Options, class Ours>
Options adam_options(const Ours& o) {
  Options options(o.lr);
  options.betas({o.betas.first, o.betas.second}).eps(o.eps);
  if constexpr (requires { o.weight_decay; }) options.weight_decay(o.weight_decay);
  if constexpr (requires { o.amsgrad; }) options.amsgrad(o.amsgrad);
  return options;
}

Made make(const speedtorch::AdamOptions& o, Tensors p) {
  return std::make_unique<optim::Adam>(std::move(p), adam_options<optim::AdamOptions>(o));
}
Made make(const speedtorch::SparseAdamOptions& o, Tensors p) {
  return std::make_unique<optim::Adam>(std::move(p), adam_options<optim::AdamOptions>(o));
}
Made make(const speedtorch::AdamWOptions& o, Tensors p) {
  return std::make_unique<optim::AdamW>(std::move(p), adam_options<optim::AdamWOptions>(o));
}
Made make(const speedtorch::AdagradOptions& o, Tensors p) {
  return std::make_unique<optim::Adagrad>(std::move(p),
                                          optim::AdagradOptions(o.lr).lr_decay(o.lr_decay).eps(o.eps));
}
Made make(const speedtorch::RMSpropOptions& o, Tensors p) {
  return std::make_unique<optim::RMSprop>(std::move(p),
                                          optim::RMSpropOptions(o.lr).alpha(o.alpha).eps(o.eps));
}
Made make(const speedtorch::SGDOptions& o, Tensors p) {
  return std::make_unique<optim::SGD>(std::move(p),
                                      optim::SGDOptions(o.lr).momentum(o.momentum).nesterov(o.nesterov));
}
/// For the optimizers that LibTorch does not have.
using NoOptimizer = std::nullptr_t;
template <class Other>
NoOptimizer make(const Other&, const Tensors&) {
  return nullptr;
}

}  // namespace

LibtorchOptimizer::LibtorchOptimizer(const speedtorch::UpdateOptions& options, Tensors parameters)
    : optimizer_(
          std::visit([&](const auto& one) -> Made { return make(one, std::move(parameters)); }, options)) {
  if (!optimizer_) throw std::logic_error("LibTorch has no such optimizer");
}

LibtorchOptimizer::~LibtorchOptimizer() = default;
LibtorchOptimizer::LibtorchOptimizer(LibtorchOptimizer&&) noexcept = default;

void LibtorchOptimizer::step() { optimizer_->step(); }

void LibtorchOptimizer::zero_grad() { optimizer_->zero_grad(); }

void LibtorchOptimizer::set_rate(double rate) { stbench::set_rate(*optimizer_, rate); }

void LibtorchOptimizer::set_state(const at::Tensor& parameter, std::int64_t steps, const Tensors& states) {
  speedtorch::optim::LiveStates(*optimizer_, parameter).set(states, steps, {});
}

speedtorch::UpdateOptions libtorch_equivalent(const speedtorch::UpdateOptions& options) {
  const auto* const sparse = std::get_if<speedtorch::SparseAdamOptions>(&options);
  if (sparse == nullptr) return options;
  return speedtorch::AdamOptions{.lr = sparse->lr, .betas = sparse->betas, .eps = sparse->eps};
}

std::string libtorch_lacks(const std::string& optimizer) {
  const bool has =
      std::visit([](const auto& one) { return !std::is_same_v<decltype(make(one, Tensors())), NoOptimizer>; },
                 optimizer_named(optimizer));
  return has ? "" : fmt::format("LibTorch has no {} in C++", optimizer);
}

std::unique_ptr<optim::Optimizer> optimizer_to_swap(const speedtorch::UpdateOptions& options,
                                                    Tensors parameters) {
  const auto made = [&]<class Options>(const Options& one) -> Made {
    if (Made libtorchs = make(one, parameters)) return libtorchs;
    return std::make_unique<speedtorch::optim::OptimizerOf<Options>>(std::move(parameters), one);
  };
  return std::visit(made, options);
}

void set_rate(optim::Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

at::Tensor leaf_on(const at::Tensor& table) { return table.detach().set_requires_grad(true); }

at::Tensor leaf_for(const at::Tensor& table) { return leaf_on(table.slice(0, 0, 0).clone()); }

}  // namespace stbench
