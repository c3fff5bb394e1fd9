#include <ATen/ops/index_select.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>

#include "benchmarks/embedding/fixture.h"
#include "benchmarks/steps/libtorch_optimizer.h"
#include "examples/word2vec/skip_gram.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/tables/model_factory.h"

namespace stbench {
namespace {

/// One table in SpeedTorch's way: the distinct rows of a batch and their states are small tensors of an
/// optimizer (LibTorch's, or ours if it has none).
class SwappedRows {
 public:
  SwappedRows(const EmbeddingFixture::Side& side, const speedtorch::UpdateOptions& options)
      : leaf_(leaf_for(side.table)),
        optimizer_(optimizer_to_swap(options, {leaf_})),
        rows_(leaf_, side.rows),
        states_(*optimizer_, leaf_, side.state_rows) {}

  /// The rows that an index names, as a function of the small weights.
  at::Tensor look_up(const at::Tensor& index) {
    rows_.before_forward_pass(index);
    states_.before_forward_pass(rows_);
    return at::index_select(leaf_, 0, rows_.positions().positives.flatten());
  }

  void set_rate(double rate) { stbench::set_rate(*optimizer_, rate); }

  void step() {
    optimizer_->step();
    states_.after_optimizer_step();
    rows_.after_optimizer_step();
  }

 private:
  at::Tensor leaf_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  speedtorch::ModelFactory rows_;
  speedtorch::OptimizerFactory states_;
};

/// SpeedTorch's way: gathers rows and states, steps small tensors, and scatters them back.
class SwapTraining final : public EmbeddingStepper {
 public:
  SwapTraining(const reports::Identity& id, EmbeddingFixture& fixture)
      : EmbeddingStepper(id, fixture, libtorch_equivalent(fixture.options)) {}

 private:
  void begin() override {
    centers_.emplace(fixture_.centers, fixture_.options);
    contexts_.emplace(fixture_.contexts, fixture_.options);
  }
  void train(const word2vec::Batch& batch) override {
    const auto centers = centers_->look_up(batch.centers);
    const auto contexts = contexts_->look_up(batch.contexts);
    const auto pairs = batch.contexts.sizes();
    word2vec::loss_of(centers, contexts.view({pairs[0], pairs[1], centers.size(1)})).backward();
    centers_->step(), contexts_->step();
  }
  void set_rate(double rate) override { centers_->set_rate(rate), contexts_->set_rate(rate); }

  std::optional<SwappedRows> centers_, contexts_;
};

const RegisterStepMethod registration(
    "embedding",
    {
        .name = "swap",
        .summary = "this library's ModelFactory and OptimizerFactory around a torch::optim::Optimizer",
        .role = harness::Role::ours,
        .skip_reason = [](const auto&) { return text_in_use().refusal; },
        .open = step_in<EmbeddingFixture, SwapTraining>,
    });

}  // namespace
}  // namespace stbench
