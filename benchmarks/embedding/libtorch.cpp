#include <ATen/ops/embedding.h>
#include <fmt/format.h>

#include <optional>

#include "benchmarks/embedding/fixture.h"
#include "benchmarks/steps/libtorch_optimizer.h"
#include "examples/word2vec/skip_gram.h"

namespace stbench {
namespace {

/// LibTorch alone: nn::Embedding on the whole tables, and torch::optim. With dense gradients the backward
/// pass makes one as large as each table, and the optimizer steps all of it. With sparse gradients both touch
/// only the rows of the batch.
class LibtorchTraining : public EmbeddingStepper {
 public:
  LibtorchTraining(const reports::Identity& id, EmbeddingFixture& fixture)
      : EmbeddingStepper(id, fixture, libtorch_equivalent(fixture.options)), sparse_(id.method == "sparse") {}

 private:
  void begin() override {
    centers_ = leaf_on(fixture_.centers.table), contexts_ = leaf_on(fixture_.contexts.table);
    optimizer_.emplace(fixture_.options, std::vector{centers_, contexts_});
    optimizer_->set_state(centers_, 0, fixture_.centers.states);
    optimizer_->set_state(contexts_, 0, fixture_.contexts.states);
  }
  void train(const word2vec::Batch& batch) override {
    optimizer_->zero_grad();
    const auto look_up = [&](const at::Tensor& table, const at::Tensor& index) {
      return at::embedding(table, index, -1, false, sparse_);
    };
    word2vec::loss_of(look_up(centers_, batch.centers), look_up(contexts_, batch.contexts)).backward();
    optimizer_->step();
  }
  void set_rate(double rate) override { optimizer_->set_rate(rate); }
  [[nodiscard]] bool moves_all() const override { return !sparse_; }

  bool sparse_;
  at::Tensor centers_, contexts_;
  std::optional<LibtorchOptimizer> optimizer_;
};

const std::string& optimizer_name(const reports::Identity& id) { return axis<std::string>(id, "optimizer"); }

std::string dense_refusal(const reports::Identity& id) {
  const auto& text = text_in_use().refusal;
  return text.empty() ? libtorch_lacks(optimizer_name(id)) : text;
}

std::string sparse_refusal(const reports::Identity& id) {
  const auto& text = text_in_use().refusal;
  const bool takes = optimizer_name(id) == "SGD" || optimizer_name(id) == "Adagrad";
  return text.empty() && !takes
             ? fmt::format("LibTorch has no {} for sparse gradients in C++", optimizer_name(id))
             : text;
}

const RegisterStepMethod dense("embedding",
                               {
                                   .name = "dense",
                                   .summary = "LibTorch: nn::Embedding and torch::optim, dense gradients",
                                   .role = harness::Role::libtorch,
                                   .skip_reason = dense_refusal,
                                   .open = step_in<EmbeddingFixture, LibtorchTraining>,
                               });
const RegisterStepMethod sparse("embedding", {
                                                 .name = "sparse",
                                                 .summary = "LibTorch: the same with sparse gradients",
                                                 .role = harness::Role::libtorch,
                                                 .skip_reason = sparse_refusal,
                                                 .open = step_in<EmbeddingFixture, LibtorchTraining>,
                                             });

}  // namespace
}  // namespace stbench
