#include <ATen/ops/embedding_dense_backward.h>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/steps/swapped_rows.h"

namespace stbench {
namespace {

/// SpeedTorch's way: gathers the batch's rows and their states, steps the small tensors with an optimizer
/// (LibTorch's, or ours if it has none), and scatters them back. Duplicates of a row are summed first, or
/// each would be trained by itself.
class SwapStep final : public RowStepper {
 public:
  SwapStep(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture, libtorch_equivalent(fixture.options)),
        rows_(fixture.param_table, fixture.state_tables, fixture.options, steps_) {}

  void step(int set) override {
    const auto& positions = rows_.take(index(set));
    auto& leaf = rows_.leaf();
    leaf.mutable_grad() = at::embedding_dense_backward(fixture_.grad, positions, leaf.size(0), -1, false);
    rows_.step(), ++steps_;
  }

 private:
  SwappedRows rows_;
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
