// One access class per kind of optimizer. LibTorch's optimizers differ in names only.

#include "speedtorch/optim/live_states.h"

#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <typeinfo>

#include "speedtorch/error.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/optim/state.h"
#include "speedtorch/tensors.h"

namespace speedtorch::optim {
namespace {

namespace libtorch = torch::optim;

/// LibTorch's options as ours. Both have the same names.
template <class Options, class Libtorch>
UpdateOptions update_options(const Libtorch& o) {
  Options found{.lr = o.lr()};
  if constexpr (requires { o.betas(); }) found.betas = {std::get<0>(o.betas()), std::get<1>(o.betas())};
  if constexpr (requires { o.eps(); }) found.eps = o.eps();
  if constexpr (requires { o.weight_decay(); }) found.weight_decay = o.weight_decay();
  if constexpr (requires { o.amsgrad(); }) found.amsgrad = o.amsgrad();
  if constexpr (requires { o.lr_decay(); }) found.lr_decay = o.lr_decay();
  if constexpr (requires { o.initial_accumulator_value(); })
    found.initial_accumulator_value = o.initial_accumulator_value();
  if constexpr (requires { o.alpha(); }) found.alpha = o.alpha();
  if constexpr (requires { o.momentum(); }) found.momentum = o.momentum();
  if constexpr (requires { o.centered(); }) found.centered = o.centered();
  if constexpr (requires { o.dampening(); }) found.dampening = o.dampening();
  if constexpr (requires { o.nesterov(); }) found.nesterov = o.nesterov();
  return found;
}

/// Returns LibTorch's state of that name.
template <class State>
at::Tensor& table_of(State& state, const std::string& name) {
  if constexpr (requires { state.exp_avg(); }) {
    return name == "exp_avg" ? state.exp_avg()
                             : (name == "exp_avg_sq" ? state.exp_avg_sq() : state.max_exp_avg_sq());
  } else if constexpr (requires { state.square_avg(); }) {
    return name == "square_avg" ? state.square_avg()
                                : (name == "grad_avg" ? state.grad_avg() : state.momentum_buffer());
  } else if constexpr (requires { state.sum(); }) {
    return state.sum();
  } else {
    return state.momentum_buffer();
  }
}

using Kept = libtorch::OptimizerParamState;

}  // namespace

/// Reads and creates the states of one kind of optimizer.
class LiveStates::Access {
 public:
  virtual ~Access() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual bool counts_rows() const = 0;
  [[nodiscard]] virtual UpdateOptions options(const libtorch::OptimizerParamGroup& group) const = 0;
  /// In the order of `names`; a missing state is undefined.
  [[nodiscard]] virtual std::vector<at::Tensor> tables(Kept& kept,
                                                       const std::vector<std::string>& names) const = 0;
  [[nodiscard]] virtual std::optional<std::int64_t> steps(const Kept& kept) const = 0;
  [[nodiscard]] virtual at::Tensor row_steps(const Kept& kept) const = 0;
  /// Null if the optimizer itself creates the same states in its next step.
  [[nodiscard]] virtual std::unique_ptr<Kept> make_state(std::vector<State> states, std::int64_t steps,
                                                         const at::Tensor& row_steps) const = 0;
};

namespace {

template <class Options, class ItsOptions, class ItsState>
class LibtorchAccess final : public LiveStates::Access {
 public:
  explicit LibtorchAccess(const char* name) : name_(name) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool counts_rows() const override { return false; }

  [[nodiscard]] UpdateOptions options(const libtorch::OptimizerParamGroup& group) const override {
    const auto* const found = dynamic_cast<const ItsOptions*>(&group.options());
    if (found == nullptr)
      throw OptimizerError("a parameter group of " + name() + " has the options of another optimizer");
    return update_options<Options>(*found);
  }
  [[nodiscard]] std::vector<at::Tensor> tables(Kept& kept,
                                               const std::vector<std::string>& names) const override {
    std::vector<at::Tensor> tables;
    for (const auto& each : names) tables.push_back(table_of(static_cast<ItsState&>(kept), each));
    return tables;
  }
  [[nodiscard]] std::optional<std::int64_t> steps([[maybe_unused]] const Kept& kept) const override {
    if constexpr (kCounts) return static_cast<const ItsState&>(kept).step();
    return std::nullopt;
  }
  [[nodiscard]] at::Tensor row_steps(const Kept& /*kept*/) const override { return {}; }

  [[nodiscard]] std::unique_ptr<Kept> make_state(std::vector<State> states, std::int64_t steps,
                                                 const at::Tensor& /*row_steps*/) const override {
    // If SGD finds no momentum it takes the gradient undamped; later gradients are dampened.
    if (!kCounts && (steps == 0 || states.empty())) return nullptr;
    auto kept = std::make_unique<ItsState>();
    for (const auto& [each, table] : states) table_of(*kept, each) = table;
    if constexpr (kCounts) kept->step(steps);
    return kept;
  }

 private:
  static constexpr bool kCounts = requires(ItsState & state) { state.step(); };
  const char* name_;
};

class SpeedTorchAccess final : public LiveStates::Access {
 public:
  explicit SpeedTorchAccess(const UpdateOptimizer& optimizer) : optimizer_(optimizer) {}

  [[nodiscard]] std::string name() const override { return "speedtorch::optim::" + optimizer_.name(); }
  [[nodiscard]] bool counts_rows() const override { return true; }
  [[nodiscard]] UpdateOptions options(const libtorch::OptimizerParamGroup& group) const override {
    return optimizer_.options_of(group);
  }
  [[nodiscard]] std::vector<at::Tensor> tables(Kept& kept,
                                               const std::vector<std::string>& names) const override {
    const auto& states = static_cast<ParamState&>(kept).states;
    std::vector<at::Tensor> tables;
    for (const auto& each : names) {
      const auto found = std::ranges::find(states, each, &State::name);
      tables.push_back(found == states.end() ? at::Tensor() : found->table);
    }
    return tables;
  }
  [[nodiscard]] std::optional<std::int64_t> steps(const Kept& kept) const override {
    return static_cast<const ParamState&>(kept).step;
  }
  [[nodiscard]] at::Tensor row_steps(const Kept& kept) const override {
    return static_cast<const ParamState&>(kept).row_steps;
  }
  [[nodiscard]] std::unique_ptr<Kept> make_state(std::vector<State> states, std::int64_t steps,
                                                 const at::Tensor& row_steps) const override {
    auto kept = std::make_unique<ParamState>();
    kept->step = steps;
    kept->states = std::move(states);
    kept->row_steps = row_steps;
    return kept;
  }

 private:
  const UpdateOptimizer& optimizer_;
};

template <class Options, class Optimizer, class ItsOptions, class ItsState>
bool access_if(const libtorch::Optimizer& optimizer, const char* name,
               std::unique_ptr<LiveStates::Access>& access) {
  if (dynamic_cast<const Optimizer*>(&optimizer) == nullptr) return false;
  access = std::make_unique<LibtorchAccess<Options, ItsOptions, ItsState>>(name);
  return true;
}

std::unique_ptr<LiveStates::Access> access_to(const libtorch::Optimizer& optimizer) {
  std::unique_ptr<LiveStates::Access> access;
  if (const auto* ours = dynamic_cast<const UpdateOptimizer*>(&optimizer))
    return std::make_unique<SpeedTorchAccess>(*ours);
  namespace lt = libtorch;
  const bool known = access_if<AdamOptions, lt::Adam, lt::AdamOptions, lt::AdamParamState>(
                         optimizer, "torch::optim::Adam", access) ||
                     access_if<AdamWOptions, lt::AdamW, lt::AdamWOptions, lt::AdamWParamState>(
                         optimizer, "torch::optim::AdamW", access) ||
                     access_if<AdagradOptions, lt::Adagrad, lt::AdagradOptions, lt::AdagradParamState>(
                         optimizer, "torch::optim::Adagrad", access) ||
                     access_if<RMSpropOptions, lt::RMSprop, lt::RMSpropOptions, lt::RMSpropParamState>(
                         optimizer, "torch::optim::RMSprop", access) ||
                     access_if<SGDOptions, lt::SGD, lt::SGDOptions, lt::SGDParamState>(
                         optimizer, "torch::optim::SGD", access);
  if (known) return access;
  throw OptimizerError(
      c10::demangle(typeid(optimizer).name()) +
      " is not supported; torch::optim::Adam, AdamW, Adagrad, RMSprop and SGD are, and those of "
      "speedtorch/optim/optimizers.h");
}

}  // namespace

LiveStates::LiveStates(libtorch::Optimizer& optimizer, const at::Tensor& parameter)
    : optimizer_(&optimizer), parameter_(parameter), access_(access_to(optimizer)) {
  static_cast<void>(group());  // throws if the parameter is missing
}

LiveStates::~LiveStates() = default;
LiveStates::LiveStates(LiveStates&&) noexcept = default;
LiveStates& LiveStates::operator=(LiveStates&&) noexcept = default;

const libtorch::OptimizerParamGroup& LiveStates::group() const {
  for (const auto& group : optimizer_->param_groups()) {
    for (const auto& each : group.params())
      if (each.is_same(parameter_)) return group;
  }
  throw OptimizerError(optimizer_name() + " does not have the parameter (" +
                       (parameter_.defined() ? shape_of(parameter_) : "undefined") +
                       "); pass the same tensor that the optimizer was given");
}

libtorch::OptimizerParamState* LiveStates::kept() const {
  const auto found = optimizer_->state().find(parameter_.unsafeGetTensorImpl());
  return found == optimizer_->state().end() ? nullptr : found->second.get();
}

UpdateOptions LiveStates::options() const { return access_->options(group()); }
std::string LiveStates::optimizer_name() const { return access_->name(); }
bool LiveStates::counts_rows() const { return access_->counts_rows(); }

std::vector<at::Tensor> LiveStates::tables() const {
  auto* const now = kept();
  if (now == nullptr) return {};
  auto tables = access_->tables(*now, state_names(options()));
  if (std::ranges::any_of(tables, [](const at::Tensor& table) { return !table.defined(); })) return {};
  return tables;
}

std::optional<std::int64_t> LiveStates::steps() const {
  const auto* const now = kept();
  return now == nullptr ? std::nullopt : access_->steps(*now);
}

at::Tensor LiveStates::row_steps() const {
  const auto* const now = kept();
  return now == nullptr ? at::Tensor() : access_->row_steps(*now);
}

void LiveStates::set(const std::vector<at::Tensor>& tables, std::int64_t steps, const at::Tensor& row_steps) {
  const auto names = state_names(options());
  std::vector<State> states;
  for (std::size_t k = 0; k < names.size(); ++k) states.push_back({names[k], tables.at(k)});
  auto made = access_->make_state(std::move(states), steps, row_steps);
  if (made)
    optimizer_->state()[parameter_.unsafeGetTensorImpl()] = std::move(made);
  else
    optimizer_->state().erase(parameter_.unsafeGetTensorImpl());
}

}  // namespace speedtorch::optim
