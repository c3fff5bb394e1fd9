#include <ATen/ops/embedding_dense_backward.h>
#include <torch/optim/optimizer.h>

#include <memory>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/steps/libtorch_optimizer.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/tables/model_factory.h"

namespace stbench {
namespace {

/// SpeedTorch's way: gathers the batch's rows and their states, steps the small tensors with an optimizer
/// (LibTorch's, or ours if it has none), and scatters them back. Duplicates of a row are summed first, or
/// each would be trained by itself.
class SwapStep final : public RowStepper {
 public:
  SwapStep(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture, libtorch_equivalent(fixture.options)),
        leaf_(leaf_for(fixture.param)),
        optimizer_(optimizer_to_swap(fixture.options, {leaf_})),
        rows_(leaf_, fixture.param_table),
        states_(*optimizer_, leaf_, fixture.state_tables) {
    states_.set_steps(steps_);
  }

  void step(int set) override {
    rows_.before_forward_pass(index(set));
    states_.before_forward_pass(rows_);
    leaf_.mutable_grad() =
        at::embedding_dense_backward(fixture_.grad, rows_.positions().positives, leaf_.size(0), -1, false);
    optimizer_->step(), ++steps_;
    states_.after_optimizer_step();
    rows_.after_optimizer_step();
  }

 private:
  at::Tensor leaf_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  speedtorch::ModelFactory rows_;
  speedtorch::OptimizerFactory states_;
};

const RegisterStepMethod registration(
    "optimizer",
    {
        .name = "swap",
        .summary = "this library's ModelFactory and OptimizerFactory around a torch::optim::Optimizer",
        .role = harness::Role::ours,
        .open = step_in<OptimizerFixture, SwapStep>,
    });

}  // namespace
}  // namespace stbench
