#include <ATen/ops/index_select.h>

#include <optional>

#include "benchmarks/embedding/fixture.h"
#include "benchmarks/steps/swapped_rows.h"
#include "examples/word2vec/skip_gram.h"

namespace stbench {
namespace {

/// SpeedTorch's way: gathers rows and states, steps small tensors, and scatters them back.
class SwapTraining final : public EmbeddingStepper {
 public:
  SwapTraining(const reports::Identity& id, EmbeddingFixture& fixture)
      : EmbeddingStepper(id, fixture, libtorch_equivalent(fixture.options)) {}

 private:
  void begin() override {
    centers_.emplace(fixture_.centers.rows, fixture_.centers.state_rows, fixture_.options, 0);
    contexts_.emplace(fixture_.contexts.rows, fixture_.contexts.state_rows, fixture_.options, 0);
  }
  void train(const word2vec::Batch& batch) override {
    const auto look_up = [](SwappedRows& rows, const at::Tensor& index) {
      const auto& positions = rows.take(index);
      return at::index_select(rows.leaf(), 0, positions.flatten());
    };
    const auto centers = look_up(*centers_, batch.centers);
    const auto contexts = look_up(*contexts_, batch.contexts);
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
