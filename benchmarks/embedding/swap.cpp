#include <ATen/ops/_unique2.h>
#include <ATen/ops/index_select.h>

#include <optional>

#include "benchmarks/embedding/gathered.h"
#include "benchmarks/libtorch_optimizer.h"

namespace stbench {
namespace {

/// One table of SpeedTorch's way: the rows of a batch, each once, and their states as small tensors of
/// LibTorch's.
class SwappedRows {
 public:
  SwappedRows(EmbeddingWorld::Side& side, const speedtorch::UpdateOptions& options)
      : side_(side), leaf_(leaf_on(side.table.slice(0, 0, 0))), optimizer_(options, {leaf_}) {}

  /// The rows that an index names, as a function of the small weight.
  at::Tensor look_up(const at::Tensor& index) {
    at::Tensor place;
    std::tie(rows_, place, std::ignore) = at::_unique2(index, true, true);
    leaf_.set_data(GatheredPairs::gathered(side_.table, rows_));
    leaf_.mutable_grad() = at::Tensor();
    return at::index_select(leaf_, 0, place.flatten());
  }

  void step(std::int64_t steps_before) {
    std::vector<at::Tensor> states;
    for (const auto& table : side_.states) states.push_back(GatheredPairs::gathered(table, rows_));
    optimizer_.set_state(leaf_, steps_before, states);
    optimizer_.step();
    speedtorch::scatter_rows(leaf_.detach(), rows_, side_.table);
    for (std::size_t k = 0; k < states.size(); ++k)
      speedtorch::scatter_rows(states[k], rows_, side_.states[k]);
  }

 private:
  EmbeddingWorld::Side& side_;
  at::Tensor leaf_, rows_;
  LibtorchOptimizer optimizer_;
};

/// SpeedTorch's way: rows and states there and back around LibTorch's optimizer on small tensors.
class SwapTraining final : public EmbeddingStepper {
 public:
  SwapTraining(const reports::Identity& id, EmbeddingWorld& world)
      : EmbeddingStepper(id, world, libtorch_equivalent(world.options)) {}

 private:
  void begin() override {
    centers_.emplace(world_.centers, world_.options);
    contexts_.emplace(world_.contexts, world_.options);
    steps_ = 0;
  }
  void train(const word2vec::Batch& batch) override {
    const auto centers = centers_->look_up(batch.centers);
    const auto contexts = contexts_->look_up(batch.contexts.flatten());
    const auto pairs = batch.contexts.sizes();
    word2vec::loss_of(centers, contexts.view({pairs[0], pairs[1], centers.size(1)})).backward();
    centers_->step(steps_), contexts_->step(steps_);
    ++steps_;
  }

  std::optional<SwappedRows> centers_, contexts_;
  std::int64_t steps_ = 0;
};

std::string refusal(const reports::Identity& id) {
  if (const auto& text = text_in_use().refusal; !text.empty()) return text;
  return libtorch_lacks(std::get<std::string>(*reports::find(id.axes, "optimizer")));
}

const RegisterStepMethod registration("embedding",
                                      {
                                          .name = "swap",
                                          .summary = "this library's rows there and back around torch::optim",
                                          .role = harness::Role::ours,
                                          .refuses = refusal,
                                          .open = step_in<EmbeddingWorld, SwapTraining>,
                                      });

}  // namespace
}  // namespace stbench
