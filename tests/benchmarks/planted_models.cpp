/// Methods of the contiguous suite with one fault each, in stbench_planted: its check must catch every
/// one.
#include <utility>
#include <vector>

#include "benchmarks/contiguous/fixture.h"
#include "benchmarks/steps/reference_step.h"
#include "tests/benchmarks/planted_method.h"

namespace stbench::planted_models {
namespace {

/// A step on all parameters of a model, element by element, clipping and zeroing; right, if nobody overrides
/// anything.
class ModelStep : public ListStepper {
 public:
  using ListStepper::ListStepper;
  void step(int /*set*/) override { all_parameters(), ++steps_; }
  [[nodiscard]] std::vector<at::Tensor> zeroed() const override { return grads_; }

 protected:
  virtual void all_parameters() {
    for (const auto& place : places_) one_parameter(place, steps_ + 1, fixture_.scale);
  }
  virtual void zero(at::Tensor gradient) { gradient.zero_(); }
  void one_parameter(const ParameterPlace& place, std::int64_t number, double scale) {
    std::vector<double> states(place.states.size());
    const auto param = place.param.to(at::kCPU), grad = place.grad.to(at::kCPU);  // the same tensors on a CPU
    std::vector<at::Tensor> kept;
    for (const auto& state : place.states) kept.push_back(state.to(at::kCPU));
    for (std::int64_t i = 0; i < param.numel(); ++i) {
      for (std::size_t s = 0; s < states.size(); ++s) states[s] = kept[s].data_ptr<float>()[i];
      double value = param.data_ptr<float>()[i];
      reference_step(fixture_.options, number, value, grad.data_ptr<float>()[i] * scale, states);
      param.data_ptr<float>()[i] = static_cast<float>(value);
      for (std::size_t s = 0; s < states.size(); ++s)
        kept[s].data_ptr<float>()[i] = static_cast<float>(states[s]);
    }
    place.param.copy_(param);
    for (std::size_t s = 0; s < states.size(); ++s) place.states[s].copy_(kept[s]);
    zero(place.grad);
  }
};

class ModelNothing final : public ModelStep {
  using ModelStep::ModelStep;
  void all_parameters() override {}
};

class ModelLastSkipped final : public ModelStep {
  using ModelStep::ModelStep;
  void all_parameters() override {
    for (std::size_t k = 0; k + 1 < places_.size(); ++k)
      one_parameter(places_[k], steps_ + 1, fixture_.scale);
    zero(places_.back().grad);
  }
};

class ModelNotClipped final : public ModelStep {
  using ModelStep::ModelStep;
  void all_parameters() override {
    for (const auto& place : places_) one_parameter(place, steps_ + 1, 1);
  }
};

class ModelNotCounted final : public ModelStep {
  using ModelStep::ModelStep;
  void all_parameters() override {
    for (const auto& place : places_) one_parameter(place, 1, fixture_.scale);
  }
};

class ModelNotZeroed final : public ModelStep {
  using ModelStep::ModelStep;
  void zero(at::Tensor /*gradient*/) override {}
};

class ModelOnlyWhenWatched final : public ModelStep {
  using ModelStep::ModelStep;
  void remember(int set) override {
    ModelStep::remember(set);
    watched_ = true;
  }
  void all_parameters() override {
    if (std::exchange(watched_, false)) ModelStep::all_parameters();
  }
  bool watched_ = false;
};

const RegisterStepMethod model_right("contiguous", planted<ContiguousFixture, ModelStep>("model_right"));
const RegisterStepMethod model_nothing("contiguous",
                                       planted<ContiguousFixture, ModelNothing>("model_nothing"));
const RegisterStepMethod model_last("contiguous",
                                    planted<ContiguousFixture, ModelLastSkipped>("model_last_skipped"));
const RegisterStepMethod model_clip("contiguous",
                                    planted<ContiguousFixture, ModelNotClipped>("model_not_clipped"));
const RegisterStepMethod model_count("contiguous",
                                     planted<ContiguousFixture, ModelNotCounted>("model_not_counted"));
const RegisterStepMethod model_zero("contiguous",
                                    planted<ContiguousFixture, ModelNotZeroed>("model_not_zeroed"));
const RegisterStepMethod model_seen(
    "contiguous", planted<ContiguousFixture, ModelOnlyWhenWatched>("model_only_when_watched"));

}  // namespace
}  // namespace stbench::planted_models
