/// Contestants of the optimizer suite and of the contiguous suite with one fault each, in stbench_planted:
/// the check must catch every one of them.
#include <ATen/ops/zeros.h>

#include "benchmarks/contiguous/world.h"
#include "benchmarks/optimizer/world.h"
#include "benchmarks/reference_step.h"
#include "speedtorch/sparse_rows.h"

namespace stbench {
namespace {

/// SparseRows on something that is not quite what it was given.
class FaultyStep : public RowStepper {
 public:
  FaultyStep(const reports::Identity& id, OptimizerWorld& world)
      : RowStepper(id, world), rows_(world.param, world.options, world.states) {
    rows_.set_steps(steps_);
  }
  void step(int set) override { update(index(set), world_.grad), ++steps_; }

 protected:
  virtual void update(const at::Tensor& index, const at::Tensor& grad) = 0;
  speedtorch::SparseRows rows_;
};

class Nothing final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void update(const at::Tensor& /*index*/, const at::Tensor& /*grad*/) override {}
};

class LastCopySkipped final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void update(const at::Tensor& index, const at::Tensor& grad) override {
    rows_.step(index.narrow(0, 0, index.numel() - 1), grad.narrow(0, 0, index.numel() - 1));
  }
};

class OneRowTooMany final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void update(const at::Tensor& index, const at::Tensor& grad) override {
    rows_.step(index, grad);
    world_.param.add_(1e-5);  // every row, named or not
  }
};

class StepNotCounted final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void update(const at::Tensor& index, const at::Tensor& grad) override {
    rows_.set_steps(0);
    rows_.step(index, grad);
  }
};

/// It is right when it is looked at, and does nothing in between.
class OnlyWhenWatched final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void remember(int set) override {
    FaultyStep::remember(set);
    watched_ = true;
  }
  void update(const at::Tensor& index, const at::Tensor& grad) override {
    if (std::exchange(watched_, false)) rows_.step(index, grad);
  }
  bool watched_ = false;
};

/// A step on all parameters of a model, element by element, clipping and zeroing; right, if nobody overrides
/// anything.
class ModelStep : public ListStepper {
 public:
  using ListStepper::ListStepper;
  void step(int /*set*/) override { all_parameters(), ++steps_; }
  [[nodiscard]] std::vector<at::Tensor> zeroed() const override { return grads(); }

 protected:
  virtual void all_parameters() {
    for (const auto& place : places_) one_parameter(place, steps_ + 1, world_.scale);
  }
  virtual void zero(at::Tensor gradient) { gradient.zero_(); }
  void one_parameter(const ParameterPlace& place, std::int64_t number, double scale) {
    std::vector<double> states(place.states.size());
    auto* const param = place.param.data_ptr<float>();
    for (std::int64_t i = 0; i < place.param.numel(); ++i) {
      for (std::size_t s = 0; s < states.size(); ++s) states[s] = place.states[s].data_ptr<float>()[i];
      double value = param[i];
      reference_step(world_.options, number, value, place.grad.data_ptr<float>()[i] * scale, states);
      param[i] = static_cast<float>(value);
      for (std::size_t s = 0; s < states.size(); ++s)
        place.states[s].data_ptr<float>()[i] = static_cast<float>(states[s]);
    }
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
    for (std::size_t k = 0; k + 1 < places_.size(); ++k) one_parameter(places_[k], steps_ + 1, world_.scale);
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
    for (const auto& place : places_) one_parameter(place, 1, world_.scale);
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

template <class Fault, class World = OptimizerWorld>
StepMethod planted(const std::string& name) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .asked_only = true,
          .open = step_in<World, Fault>};
}

const RegisterStepMethod nothing("optimizer", planted<Nothing>("step_nothing"));
const RegisterStepMethod last_copy("optimizer", planted<LastCopySkipped>("step_last_copy_skipped"));
const RegisterStepMethod too_many("optimizer", planted<OneRowTooMany>("step_every_row"));
const RegisterStepMethod not_counted("optimizer", planted<StepNotCounted>("step_not_counted"));
const RegisterStepMethod unwatched("optimizer", planted<OnlyWhenWatched>("step_only_when_watched"));

template <class Fault>
StepMethod planted_model(const std::string& name) {
  return planted<Fault, ContiguousWorld>(name);
}
const RegisterStepMethod model_right("contiguous", planted_model<ModelStep>("model_right"));
const RegisterStepMethod model_nothing("contiguous", planted_model<ModelNothing>("model_nothing"));
const RegisterStepMethod model_last("contiguous", planted_model<ModelLastSkipped>("model_last_skipped"));
const RegisterStepMethod model_clip("contiguous", planted_model<ModelNotClipped>("model_not_clipped"));
const RegisterStepMethod model_count("contiguous", planted_model<ModelNotCounted>("model_not_counted"));
const RegisterStepMethod model_zero("contiguous", planted_model<ModelNotZeroed>("model_not_zeroed"));
const RegisterStepMethod model_seen("contiguous",
                                    planted_model<ModelOnlyWhenWatched>("model_only_when_watched"));

}  // namespace
}  // namespace stbench
