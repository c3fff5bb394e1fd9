#include <algorithm>

#include "benchmarks/contiguous/fixture.h"
#include "speedtorch/contiguous/optimizer.h"

namespace stbench {
namespace {

/// This library: one buffer for all parameters, and one pass over parameters, gradients and states that also
/// clips and zeroes.
class ContiguousStep final : public ContiguousStepper {
 public:
  ContiguousStep(const reports::Identity& id, ContiguousFixture& fixture)
      : ContiguousStepper(id, fixture), optimizer_(leafs(fixture), fixture.options) {
    std::vector<speedtorch::ParameterState> states;
    for (std::size_t k = 0; k < fixture.shapes.size(); ++k) {
      speedtorch::ParameterState state{.steps = steps_, .tensors = {}};
      for (std::size_t s = 0; s < fixture.state_names.size(); ++s) {
        auto tensor = fixture.empty(fixture.shapes[k]);
        fixture.fill_state(tensor, fixture.firsts[k], s);
        state.tensors.emplace_back(fixture.state_names[s], tensor);
      }
      states.push_back(std::move(state));
    }
    optimizer_.set_state(states);
    options_.zero_grad = fixture.clip > 0;
    if (fixture.clip > 0) options_.max_norm = fixture.clip;
  }

  void prepare(int /*set*/) override {
    if (filled_ && fixture_.clip == 0) return;  // the step leaves them as they are
    const auto& parameters = optimizer_.parameters().original();
    for (std::size_t k = 0; k < parameters.size(); ++k) parameters[k].grad().copy_(fixture_.gradients[k]);
    filled_ = true;
  }
  void step(int /*set*/) override {
    part(fixture_.clip > 0 ? "clip, step, zero" : "step", [&] { optimizer_.step(options_); });
    ++steps_;
  }
  [[nodiscard]] std::vector<at::Tensor> zeroed() const override {
    std::vector<at::Tensor> gradients;
    for (const auto& bucket : optimizer_.parameters().buckets()) gradients.push_back(bucket.gradient);
    return gradients;
  }

 private:
  static std::vector<at::Tensor> leafs(const ContiguousFixture& fixture) {
    std::vector<at::Tensor> leafs;
    for (std::size_t k = 0; k < fixture.shapes.size(); ++k) {
      auto tensor = fixture.empty(fixture.shapes[k]);
      fixture.fill_param(tensor, fixture.firsts[k]);
      leafs.push_back(tensor.set_requires_grad(true));
    }
    return leafs;
  }
  [[nodiscard]] std::vector<ParameterPlace> now() override {
    const auto& parameters = optimizer_.parameters().original();
    const auto states = optimizer_.state();
    std::vector<ParameterPlace> places;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      ParameterPlace place{parameters[k], {}, {}};
      for (const auto& name : fixture_.state_names) {
        const auto state =
            std::ranges::find(states[k].tensors, name, &std::pair<std::string, at::Tensor>::first);
        place.states.push_back(state->second);
      }
      places.push_back(std::move(place));
    }
    return places;
  }
  [[nodiscard]] at::Tensor first() override { return optimizer_.parameters().original().front(); }

  speedtorch::ContiguousOptimizer optimizer_;
  speedtorch::StepOptions options_;
  bool filled_ = false;
};

const RegisterStepMethod registration(
    "contiguous", {
                      .name = "contiguous",
                      .summary = "this library: ContiguousOptimizer, one pass over one buffer",
                      .role = harness::Role::ours,
                      .open = step_in<ContiguousFixture, ContiguousStep>,
                  });

}  // namespace
}  // namespace stbench
