/// Methods of the optimizer suite with one fault each, in stbench_planted: its check must catch every
/// one.
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <stdexcept>
#include <utility>

#include "benchmarks/optimizer/fixture.h"
#include "speedtorch/optim/sparse_rows.h"
#include "tests/benchmarks/planted_method.h"

namespace stbench::planted_steps {
namespace {

/// SparseRows on something that is not quite what it was given.
class FaultyStep : public RowStepper {
 public:
  FaultyStep(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture), rows_(fixture.param, fixture.options, fixture.states) {
    rows_.set_steps(steps_);
  }
  void step(int set) override { update(index(set), fixture_.grad), ++steps_; }

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
    fixture_.param.add_(1e-5);  // every row, named or not
  }
};

class OtherRowsToo final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void update(const at::Tensor& index, const at::Tensor& grad) override {
    rows_.step(index, grad);
    auto others = at::zeros({fixture_.param.size(0), 1}, fixture_.param.options()).add(1e-5);
    fixture_.param.add_(others.index_fill_(0, index, 0));
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

/// A right step whose work must be done when its sample is: else it fails.
class Awaited final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void update(const at::Tensor& index, const at::Tensor& grad) override { rows_.step(index, grad); }
  std::string fingerprint(int set) override {
    const auto device = fixture_.grad.device();
    const c10::impl::VirtualGuardImpl gpu(device.type());
    if (!gpu.queryStream(gpu.getStream(device))) throw std::runtime_error("the sample ended before the step");
    return FaultyStep::fingerprint(set);
  }
};

const RegisterStepMethod awaited("optimizer", planted<OptimizerFixture, Awaited>("step_awaited"));
const RegisterStepMethod nothing("optimizer", planted<OptimizerFixture, Nothing>("step_nothing"));
const RegisterStepMethod last_copy("optimizer",
                                   planted<OptimizerFixture, LastCopySkipped>("step_last_copy_skipped"));
const RegisterStepMethod too_many("optimizer", planted<OptimizerFixture, OneRowTooMany>("step_every_row"));
const RegisterStepMethod others("optimizer", planted<OptimizerFixture, OtherRowsToo>("step_other_rows"));
const RegisterStepMethod not_counted("optimizer",
                                     planted<OptimizerFixture, StepNotCounted>("step_not_counted"));
const RegisterStepMethod unwatched("optimizer",
                                   planted<OptimizerFixture, OnlyWhenWatched>("step_only_when_watched"));

}  // namespace
}  // namespace stbench::planted_steps
