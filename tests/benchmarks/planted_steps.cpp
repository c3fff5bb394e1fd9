/// Contestants of the optimizer and embedding suites with one fault each, in stbench_planted: their checks
/// must catch every one of them.
#include <ATen/ops/zeros.h>

#include <optional>
#include <utility>

#include "benchmarks/embedding/gathered.h"
#include "benchmarks/embedding/world.h"
#include "benchmarks/optimizer/world.h"
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

class OtherRowsToo final : public FaultyStep {
  using FaultyStep::FaultyStep;
  void update(const at::Tensor& index, const at::Tensor& grad) override {
    rows_.step(index, grad);
    auto others = at::zeros({world_.param.size(0), 1}).add(1e-5);
    world_.param.add_(others.index_fill_(0, index, 0));
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

/// Training by SparseRows, of which something is left out.
class FaultyTraining : public EmbeddingStepper {
 public:
  FaultyTraining(const reports::Identity& id, EmbeddingWorld& world)
      : EmbeddingStepper(id, world, world.options) {}

 protected:
  virtual void update(const word2vec::Batch& batch, const GatheredPairs& rows) = 0;

  std::optional<speedtorch::SparseRows> centers_, contexts_;
  int begun_ = 0;

 private:
  void begin() override {
    centers_.emplace(world_.centers.table, world_.options, world_.centers.states);
    contexts_.emplace(world_.contexts.table, world_.options, world_.contexts.states);
    ++begun_;
  }
  void train(const word2vec::Batch& batch) override {
    const GatheredPairs rows(world_, batch.centers, batch.contexts.flatten());
    rows.backward(batch.contexts.sizes());
    update(batch, rows);
  }
};

class CentersStay final : public FaultyTraining {
  using FaultyTraining::FaultyTraining;
  void update(const word2vec::Batch& batch, const GatheredPairs& rows) override {
    contexts_->step(batch.contexts, rows.contexts.grad());
  }
};

class ContextsStay final : public FaultyTraining {
  using FaultyTraining::FaultyTraining;
  void update(const word2vec::Batch& batch, const GatheredPairs& rows) override {
    centers_->step(batch.centers, rows.centers.grad());
  }
};

/// Its steps are right, and then it does not learn: it goes up the slope.
class LearnsNothing final : public FaultyTraining {
  using FaultyTraining::FaultyTraining;
  void update(const word2vec::Batch& batch, const GatheredPairs& rows) override {
    const double sign = begun_ == 1 ? 1 : -1;
    centers_->step(batch.centers, rows.centers.grad().mul(sign));
    contexts_->step(batch.contexts, rows.contexts.grad().mul(sign));
  }
};

template <class Fault, class World = OptimizerWorld>
StepMethod planted(const std::string& name) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .asked_only = true,
          .open = step_in<World, Fault>};
}

const RegisterStepMethod centers_stay("embedding",
                                      planted<CentersStay, EmbeddingWorld>("training_centers_stay"));
const RegisterStepMethod contexts_stay("embedding",
                                       planted<ContextsStay, EmbeddingWorld>("training_contexts_stay"));
const RegisterStepMethod learns_nothing("embedding",
                                        planted<LearnsNothing, EmbeddingWorld>("training_learns_nothing"));

const RegisterStepMethod nothing("optimizer", planted<Nothing>("step_nothing"));
const RegisterStepMethod last_copy("optimizer", planted<LastCopySkipped>("step_last_copy_skipped"));
const RegisterStepMethod too_many("optimizer", planted<OneRowTooMany>("step_every_row"));
const RegisterStepMethod others("optimizer", planted<OtherRowsToo>("step_other_rows"));
const RegisterStepMethod not_counted("optimizer", planted<StepNotCounted>("step_not_counted"));
const RegisterStepMethod unwatched("optimizer", planted<OnlyWhenWatched>("step_only_when_watched"));

}  // namespace
}  // namespace stbench
