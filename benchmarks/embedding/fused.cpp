#include <optional>
#include <variant>

#include "benchmarks/embedding/gathered.h"
#include "speedtorch/optim/sparse_rows.h"

namespace stbench {
namespace {

/// This library: gathers rows for the forward pass and updates them in place by SparseRows.
class FusedTraining final : public EmbeddingStepper {
 public:
  FusedTraining(const reports::Identity& id, EmbeddingFixture& fixture)
      : EmbeddingStepper(id, fixture, fixture.options) {}

 private:
  void begin() override {
    centers_.emplace(fixture_.centers.table, fixture_.options, fixture_.centers.states);
    contexts_.emplace(fixture_.contexts.table, fixture_.options, fixture_.contexts.states);
  }
  void train(const word2vec::Batch& batch) override {
    const GatheredPairs rows(fixture_, batch.centers, batch.contexts.flatten());
    rows.backward(batch.contexts.sizes());
    centers_->step(batch.centers, rows.centers.grad());
    contexts_->step(batch.contexts, rows.contexts.grad());
  }
  void set_rate(double rate) override {
    auto options = fixture_.options;
    std::visit([&](auto& one) { one.lr = rate; }, options);
    centers_->set_options(options), contexts_->set_options(options);
  }

  std::optional<speedtorch::SparseRows> centers_, contexts_;
};

const RegisterStepMethod registration("embedding",
                                      {
                                          .name = "fused",
                                          .summary = "this library: gather_rows and SparseRows, in place",
                                          .role = harness::Role::ours,
                                          .skip_reason = [](const auto&) { return text_in_use().refusal; },
                                          .open = step_in<EmbeddingFixture, FusedTraining>,
                                      });

}  // namespace
}  // namespace stbench
