#include "speedtorch/contiguous/optimizer.h"

#include <utility>
#include <variant>

#include "speedtorch/contiguous/state.h"

namespace speedtorch {

ContiguousOptimizer::ContiguousOptimizer(std::vector<at::Tensor> parameters, const UpdateOptions& options,
                                         OptimizerOptions more)
    : ContiguousOptimizer(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, options, more) {
}

ContiguousOptimizer::ContiguousOptimizer(std::vector<ParameterGroup> groups, const UpdateOptions& defaults,
                                         OptimizerOptions more)
    : state_(std::make_unique<OptimizerState>(std::move(groups), defaults, more)) {}

ContiguousOptimizer::~ContiguousOptimizer() = default;
ContiguousOptimizer::ContiguousOptimizer(ContiguousOptimizer&&) noexcept = default;
ContiguousOptimizer& ContiguousOptimizer::operator=(ContiguousOptimizer&&) noexcept = default;

bool ContiguousOptimizer::step(const StepOptions& options) { return state_->step(options); }
double ContiguousOptimizer::gradient_norm() const { return state_->norm; }
void ContiguousOptimizer::zero_grad() { state_->parameters.zero_grad(); }
void ContiguousOptimizer::rebuild() { state_->rebuild(); }
ContiguousParameters& ContiguousOptimizer::parameters() { return state_->parameters; }
const ContiguousParameters& ContiguousOptimizer::parameters() const { return state_->parameters; }

const UpdateOptions& ContiguousOptimizer::options(std::size_t group) const {
  return state_->options.at(group);
}

void ContiguousOptimizer::set_options(std::size_t group, const UpdateOptions& options) {
  state_->set_options(group, options);
}

void ContiguousOptimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < state_->options.size(); ++group) {
    auto options = state_->options[group];
    std::visit([&](auto& one) { one.lr = lr; }, options);
    state_->set_options(group, options);
  }
}

std::vector<ParameterState> ContiguousOptimizer::state() const { return state_->state(); }
void ContiguousOptimizer::set_state(const std::vector<ParameterState>& state) { state_->set_state(state); }

}  // namespace speedtorch
