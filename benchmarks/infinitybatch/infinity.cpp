#include "speedtorch/infinity/infinity_batch.h"

#include <algorithm>

#include "benchmarks/infinitybatch/fixture.h"

namespace stbench {
namespace {

using namespace speedtorch::infinity;  // NOLINT(google-build-using-namespace)

/// This library. A warning that gradients are wrong ends the case.
class InfinityTrainer final : public Trainer {
 public:
  explicit InfinityTrainer(TrainingFixture& fixture) : Trainer(fixture), infinity_(options(fixture)) {
    infinity_.set_model(
        Model(parameters_, [&net = fixture.net, parameters = parameters_](const at::Tensor& samples) {
          return net.forward(parameters, samples);
        }));
    infinity_.set_optimizer(optimizer_);
    infinity_.set_criterion(Criterion(mean_loss, Reduction::mean));
  }

  void prepare(int set) override {
    infinity_.zero_grad();
    Trainer::prepare(set);
  }

 private:
  static speedtorch::InfinityBatchOptions options(const TrainingFixture& fixture) {
    speedtorch::InfinityBatchOptions options;
    if (const auto size = asked_size(fixture.id)) options.micro_batch.fixed = *size;
    options.warnings = WarningPlan::strict();
    return options;
  }

  void gradients(int set) override {
    const auto [samples, classes] = fixture_.examples(set, 0, fixture_.id.batch);
    before_ = last_;
    last_ = infinity_.backward(speedtorch::infinity::Batch(samples, classes));
  }
  void update() override { infinity_.step(); }
  /// The size is final when it was chosen and a step did the same as the one before.
  bool still_searching() override {
    if (!finds_size(fixture_.id)) return false;
    const auto& sizes = infinity_.micro_batch_size().entries();
    return std::any_of(sizes.begin(), sizes.end(), [](const auto& of) { return of.second.fastest == 0; }) ||
           last_.micro_batches != before_.micro_batches || last_.refusals > 0;
  }
  [[nodiscard]] std::int64_t at_once() const override { return last_.largest_micro_batch; }

  speedtorch::InfinityBatch infinity_;
  BatchResult before_, last_;
};

const RegisterStepMethod registration("infinitybatch", {
                                                           .name = "infinity",
                                                           .summary = "this library: InfinityBatch",
                                                           .role = harness::Role::ours,
                                                           .open = trainer_in<InfinityTrainer>,
                                                       });

}  // namespace
}  // namespace stbench
