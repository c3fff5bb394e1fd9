/// Methods of the embedding suite with one fault each, in stbench_planted: its checks must catch every
/// one.
#include <optional>
#include <variant>

#include "benchmarks/embedding/fixture.h"
#include "benchmarks/embedding/gathered.h"
#include "speedtorch/optim/sparse_rows.h"
#include "tests/benchmarks/planted_method.h"

namespace stbench::planted_training {
namespace {

/// Training by SparseRows, of which something is left out.
class FaultyTraining : public EmbeddingStepper {
 public:
  FaultyTraining(const reports::Identity& id, EmbeddingFixture& fixture)
      : EmbeddingStepper(id, fixture, fixture.options) {}

 protected:
  virtual void update(const word2vec::Batch& batch, const GatheredPairs& rows) = 0;

  std::optional<speedtorch::SparseRows> centers_, contexts_;
  int begun_ = 0;

 private:
  void begin() override {
    centers_.emplace(fixture_.centers.table, fixture_.options, fixture_.centers.states);
    contexts_.emplace(fixture_.contexts.table, fixture_.options, fixture_.contexts.states);
    ++begun_;
  }
  void train(const word2vec::Batch& batch) override {
    const GatheredPairs rows(fixture_, batch.centers, batch.contexts.flatten());
    rows.backward(batch.contexts.sizes());
    update(batch, rows);
  }
  void set_rate(double rate) override {
    auto options = fixture_.options;
    std::visit([&](auto& one) { one.lr = rate; }, options);
    centers_->set_options(options), contexts_->set_options(options);
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

const RegisterStepMethod centers_stay("embedding",
                                      planted<EmbeddingFixture, CentersStay>("training_centers_stay"));
const RegisterStepMethod contexts_stay("embedding",
                                       planted<EmbeddingFixture, ContextsStay>("training_contexts_stay"));
const RegisterStepMethod learns_nothing("embedding",
                                        planted<EmbeddingFixture, LearnsNothing>("training_learns_nothing"));

}  // namespace
}  // namespace stbench::planted_training
