/// Methods of the infinitybatch suite with one fault each, in stbench_planted: its check must catch every
/// one of them.
#include <ATen/ops/randn_like.h>
#include <torch/optim/optimizer.h>

#include <utility>

#include "benchmarks/infinitybatch/fixture.h"

namespace stbench::planted_batches {
namespace {

/// Halves of the batch, the first of them larger.
class FaultyTrainer : public Trainer {
 public:
  using Trainer::Trainer;

 protected:
  void gradients(int set) override { halves(set, samples()); }
  void halves(int set, std::int64_t all) {
    const auto first = all * 2 / 3;
    part(set, 0, first, static_cast<double>(first) / static_cast<double>(all));
    part(set, first, all - first, static_cast<double>(all - first) / static_cast<double>(all));
  }
  void part(int set, std::int64_t first, std::int64_t count, double weight) {
    fixture_.loss(parameters_, fetch(set, first, count)).mul(weight).backward();
  }
  [[nodiscard]] std::int64_t at_once() const override { return samples() * 2 / 3; }
};

class LastSampleLost final : public FaultyTrainer {
  using FaultyTrainer::FaultyTrainer;
  void gradients(int set) override { halves(set, samples() - 1); }
};

class PartsWeighTheSame final : public FaultyTrainer {
  using FaultyTrainer::FaultyTrainer;
  void gradients(int set) override {
    const auto first = samples() * 2 / 3;
    part(set, 0, first, 0.5), part(set, first, samples() - first, 0.5);
  }
};

/// As much as the last bits of half precision.
class Noise final : public FaultyTrainer {
  using FaultyTrainer::FaultyTrainer;
  void gradients(int set) override {
    FaultyTrainer::gradients(set);
    auto& gradient = parameters_.front().mutable_grad();
    gradient = gradient.add(at::randn_like(gradient).mul(gradient.abs().mean()), 1e-4);
  }
};

class StepsTwice final : public FaultyTrainer {
  using FaultyTrainer::FaultyTrainer;
  void update() override { optimizer_->step(), optimizer_->step(); }
};

class NoGradient final : public FaultyTrainer {
  using FaultyTrainer::FaultyTrainer;
  void update() override {
    FaultyTrainer::update();
    parameters_.back().mutable_grad() = at::Tensor();
  }
};

/// It is right when it is looked at, and does nothing in between.
class OnlyWhenWatched final : public FaultyTrainer {
  using FaultyTrainer::FaultyTrainer;
  void remember(int set) override {
    FaultyTrainer::remember(set);
    watched_ = true;
  }
  void gradients(int set) override {
    if (std::exchange(watched_, false)) FaultyTrainer::gradients(set);
  }
  bool watched_ = false;
};

template <class Fault>
StepMethod planted(const std::string& name) {
  return {.name = name,
          .summary = "planted fault",
          .role = harness::Role::peer,
          .asked_only = true,
          .open = trainer_in<Fault>};
}

const RegisterStepMethod lost("infinitybatch", planted<LastSampleLost>("batch_last_sample_lost"));
const RegisterStepMethod same("infinitybatch", planted<PartsWeighTheSame>("batch_parts_weigh_the_same"));
const RegisterStepMethod noise("infinitybatch", planted<Noise>("batch_noise"));
const RegisterStepMethod twice("infinitybatch", planted<StepsTwice>("batch_steps_twice"));
const RegisterStepMethod none("infinitybatch", planted<NoGradient>("batch_no_gradient"));
const RegisterStepMethod unwatched("infinitybatch", planted<OnlyWhenWatched>("batch_only_when_watched"));

}  // namespace
}  // namespace stbench::planted_batches
