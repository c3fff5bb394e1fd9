#include "speedtorch/infinity/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <typeinfo>

#include "speedtorch/infinity/errors.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/optim/state.h"

namespace speedtorch::infinity {
namespace {

using torch::optim::OptimizerParamState;

/// Pointers to the tensors in a state of LibTorch's optimizers or of speedtorch/optim.
std::vector<at::Tensor*> places_in(OptimizerParamState& state) {
  if (auto* ours = dynamic_cast<optim::ParamState*>(&state)) {
    std::vector<at::Tensor*> places{&ours->row_steps};
    for (State& each : ours->states) places.push_back(&each.table);
    return places;
  }
  if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(&state))
    return {&adam->exp_avg(), &adam->exp_avg_sq(), &adam->max_exp_avg_sq()};
  if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(&state))
    return {&adamw->exp_avg(), &adamw->exp_avg_sq(), &adamw->max_exp_avg_sq()};
  if (auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(&state)) return {&sgd->momentum_buffer()};
  if (auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(&state)) return {&adagrad->sum()};
  if (auto* rmsprop = dynamic_cast<torch::optim::RMSpropParamState*>(&state))
    return {&rmsprop->square_avg(), &rmsprop->momentum_buffer(), &rmsprop->grad_avg()};
  throw InfinityBatchError(
      "the states of this optimizer are neither LibTorch's nor speedtorch/optim's; pass it as an "
      "Optimizer::Own, which names what a step changes, so that a step can be rolled back");
}

/// The state names of each parameter of a ContiguousOptimizer, without the tensors.
std::vector<ParameterState> layout_of(const ContiguousOptimizer& optimizer) {
  const auto names = state_names(optimizer.options());
  std::vector<ParameterState> layout;
  for (const at::Tensor& parameter : optimizer.parameters()) {
    ParameterState& state = layout.emplace_back();
    if (!parameter.requires_grad()) continue;
    for (const auto& name : names) state.tensors.emplace_back(name, at::Tensor());
    if (at::isReducedFloatingType(parameter.scalar_type()))
      state.tensors.emplace_back("master", at::Tensor());
  }
  return layout;
}

std::int64_t bytes_of_states(const ContiguousOptimizer& optimizer) {
  const auto layout = layout_of(optimizer);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const at::Tensor& parameter = optimizer.parameters().original()[i];
    const auto item = std::max<std::int64_t>(4, static_cast<std::int64_t>(parameter.element_size()));
    bytes += static_cast<std::int64_t>(layout[i].tensors.size()) * item * parameter.numel();
  }
  return bytes;
}

/// Copies of the step counts and then all states, as one list.
Tensors state_of(const ContiguousOptimizer& optimizer) {
  const auto states = optimizer.state();
  at::Tensor steps = at::empty({static_cast<std::int64_t>(states.size())}, at::kLong);
  Tensors all{steps};
  for (std::size_t i = 0; i < states.size(); ++i) {
    steps.mutable_data_ptr<std::int64_t>()[i] = states[i].steps;
    for (const auto& [name, table] : states[i].tensors) all.push_back(table);
  }
  return all;
}

void set_state_of(ContiguousOptimizer& optimizer, const Tensors& all) {
  std::vector<ParameterState> states = layout_of(optimizer);
  std::size_t wanted = 1;
  for (const ParameterState& state : states) wanted += state.tensors.size();
  if (all.size() != wanted || all.front().numel() != static_cast<std::int64_t>(states.size()))
    throw InfinityBatchError(
        std::to_string(all.size()) + " states were given to a ContiguousOptimizer that has " +
        std::to_string(wanted) + " for its " + std::to_string(states.size()) + " parameters");
  std::size_t next = 1;
  for (std::size_t i = 0; i < states.size(); ++i) {
    states[i].steps = all.front().const_data_ptr<std::int64_t>()[i];
    for (auto& [name, table] : states[i].tensors) table = all[next++];
  }
  optimizer.set_state(states);
}

Optimizer::Own contiguous(ContiguousOptimizer& optimizer, const StepOptions& options) {
  return {.step = [&optimizer, options] { optimizer.step(options); },
          .zero_grad = [&optimizer] { optimizer.zero_grad(); },
          .parameters = [&optimizer] { return optimizer.parameters().original(); },
          .state = [&optimizer] { return state_of(optimizer); },
          .set_state = [&optimizer](const Tensors& all) { set_state_of(optimizer, all); },
          .state_bytes = [&optimizer] { return bytes_of_states(optimizer); },
          .allocates_nothing = true};
}

/// True if `parameter.add_(gradient, -rate)` allocates nothing. False for complex tensors, which may be
/// marked as conjugated, and on a GPU, which may have to load another kernel for another dtype.
bool adds_in_place(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return true;
  return parameter.device().is_cpu() && gradient.device().is_cpu() && parameter.layout() == at::kStrided &&
         gradient.layout() == at::kStrided && parameter.is_non_overlapping_and_dense() &&
         gradient.sizes() == parameter.sizes() && gradient.scalar_type() == parameter.scalar_type() &&
         !parameter.is_complex() && !parameter.is_neg() && !gradient.is_neg();
}

/// Evaluated before each step, because options and gradients may change.
bool is_plain_sgd(const torch::optim::Optimizer& stock) {
  if (typeid(stock) != typeid(torch::optim::SGD)) return false;  // a derived class may do anything
  for (const auto& group : stock.param_groups()) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    if (options.momentum() != 0 || options.weight_decay() != 0) return false;
    if (!std::all_of(group.params().begin(), group.params().end(), adds_in_place)) return false;
  }
  return true;
}

}  // namespace

bool Optimizer::allocates_nothing() const { return stock_ ? is_plain_sgd(*stock_) : own_.allocates_nothing; }

Optimizer::Optimizer(ContiguousOptimizer& contiguous, const StepOptions& options)
    : Optimizer(infinity::contiguous(contiguous, options)) {}

Optimizer::Optimizer(torch::optim::Optimizer& stock)
    : Optimizer(std::shared_ptr<torch::optim::Optimizer>(&stock, [](auto*) {})) {}

Optimizer::Optimizer(std::shared_ptr<torch::optim::Optimizer> stock) : stock_(std::move(stock)) {
  if (!stock_) throw InfinityBatchError("the optimizer is a null pointer");
  if (dynamic_cast<torch::optim::LBFGS*>(stock_.get()))
    throw InfinityBatchError(
        "LBFGS evaluates the loss several times inside its step; take an optimizer whose step "
        "uses only gradients");
}

Optimizer::Optimizer(Own own) : own_(std::move(own)) {
  if (!own_.step || !own_.zero_grad || !own_.parameters || !own_.state)
    throw InfinityBatchError(
        "a custom optimizer (Optimizer::Own) needs step, zero_grad, parameters and state");
}

void Optimizer::step() const { stock_ ? static_cast<void>(stock_->step()) : own_.step(); }

void Optimizer::zero_grad() const { stock_ ? stock_->zero_grad() : own_.zero_grad(); }

void Optimizer::set_own_state(const Tensors& values) const {
  if (own_.set_state) return own_.set_state(values);
  const at::NoGradGuard no_grad;
  const Tensors into = own_.state();
  if (values.size() != into.size())
    throw InfinityBatchError("the checkpoint has " + std::to_string(values.size()) +
                             " states of an optimizer that has " + std::to_string(into.size()));
  for (std::size_t i = 0; i < values.size(); ++i) into[i].copy_(values[i]);
}

std::string Optimizer::kind() const {
  if (!stock_) return "custom";
  std::string kind = c10::demangle(typeid(*stock_).name());
  for (const auto& group : stock_->param_groups()) kind += " " + std::to_string(group.params().size());
  return kind;
}

Tensors Optimizer::parameters() const {
  if (!stock_) return own_.parameters();
  Tensors all;
  for (const auto& group : stock_->param_groups())
    all.insert(all.end(), group.params().begin(), group.params().end());
  return all;
}

std::vector<StateOfParameter> states_of(torch::optim::Optimizer& stock) {
  std::vector<StateOfParameter> states;
  for (auto& [key, state] : stock.state()) {
    StateOfParameter found{.key = key};
    for (const at::Tensor* place : places_in(*state))
      if (place->defined()) found.tensors.push_back(*place);
    states.push_back(std::move(found));
  }
  return states;
}

std::int64_t state_bytes(const Optimizer& optimizer) {
  if (!optimizer.stock() && optimizer.own().state_bytes) return optimizer.own().state_bytes();
  Tensors all;
  if (optimizer.stock()) {
    for (StateOfParameter& state : states_of(*optimizer.stock()))
      all.insert(all.end(), state.tensors.begin(), state.tensors.end());
  } else {
    all = optimizer.own().state();
  }
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : all) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

void move_states(const Optimizer& optimizer) {
  if (!optimizer.stock()) return;
  auto& states = optimizer.stock()->state();
  for (const at::Tensor& parameter : optimizer.parameters()) {
    const auto state = states.find(parameter.unsafeGetTensorImpl());
    if (state == states.end()) continue;
    for (at::Tensor* place : places_in(*state->second))
      if (place->defined()) *place = place->to(parameter.device());
  }
}

}  // namespace speedtorch::infinity
