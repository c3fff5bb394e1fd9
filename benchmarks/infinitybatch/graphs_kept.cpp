#include <ATen/ops/cat.h>

#include "benchmarks/infinitybatch/fixture.h"

namespace stbench {
namespace {

/// SpeedTorch's way: the forward pass of one sample at a time, keeping all graphs until one backward pass.
class GraphsKeptTrainer final : public Trainer {
 public:
  using Trainer::Trainer;

 private:
  void gradients(int set) override {
    std::vector<at::Tensor> scores;
    for (std::int64_t sample = 0; sample < samples(); ++sample)
      scores.push_back(fixture_.net.forward(parameters_, fetch(set, sample, 1).samples));
    mean_loss(at::cat(scores), fetch(set, 0, samples()).classes).backward();
  }
  [[nodiscard]] std::int64_t at_once() const override { return 1; }
  [[nodiscard]] double most_times_plain() const override { return times_plain_of_single_sums(samples()); }
};

const RegisterStepMethod registration(
    "infinitybatch",
    {
        .name = "graphs_kept",
        .summary = "infinitybatch's way: one sample at a time, their graphs kept for one backward",
        .role = harness::Role::libtorch,
        .supports = finds_size,
        .open = trainer_in<GraphsKeptTrainer>,
    });

}  // namespace
}  // namespace stbench
