#include "speedtorch/infinity/optimizer.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "speedtorch/infinity/errors.h"

namespace speedtorch::infinity {
namespace {

using torch::optim::OptimizerParamState;

/// The places of the tensors in a state, empty for a type that is not LibTorch's.
std::vector<at::Tensor*> places_in(OptimizerParamState& state) {
  if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(&state))
    return {&adam->exp_avg(), &adam->exp_avg_sq(), &adam->max_exp_avg_sq()};
  if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(&state))
    return {&adamw->exp_avg(), &adamw->exp_avg_sq(), &adamw->max_exp_avg_sq()};
  if (auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(&state)) return {&sgd->momentum_buffer()};
  if (auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(&state)) return {&adagrad->sum()};
  if (auto* rmsprop = dynamic_cast<torch::optim::RMSpropParamState*>(&state))
    return {&rmsprop->square_avg(), &rmsprop->momentum_buffer(), &rmsprop->grad_avg()};
  throw InfinityBatchError(
      "the states of this optimizer are of a type that LibTorch does not have; name what its step changes "
      "(Optimizer::Own), or its step could not be taken back when memory runs out");
}

}  // namespace

Optimizer::Optimizer(torch::optim::Optimizer& stock)
    : Optimizer(std::shared_ptr<torch::optim::Optimizer>(&stock, [](auto*) {})) {}

Optimizer::Optimizer(std::shared_ptr<torch::optim::Optimizer> stock) : stock_(std::move(stock)) {
  if (!stock_) throw InfinityBatchError("the optimizer is a null pointer");
  if (dynamic_cast<torch::optim::LBFGS*>(stock_.get()))
    throw InfinityBatchError(
        "LBFGS evaluates the loss inside its step, several times; take an optimizer whose step "
        "uses gradients only");
}

Optimizer::Optimizer(Own own) : own_(std::move(own)) {
  if (!own_.step || !own_.zero_grad || !own_.parameters || !own_.state)
    throw InfinityBatchError("an optimizer of one's own needs step, zero_grad, parameters and state");
}

void Optimizer::step() const { stock_ ? static_cast<void>(stock_->step()) : own_.step(); }

void Optimizer::zero_grad() const { stock_ ? stock_->zero_grad() : own_.zero_grad(); }

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
