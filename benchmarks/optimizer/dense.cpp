#include <ATen/ops/embedding_dense_backward.h>

#include "benchmarks/optimizer/fixture.h"
#include "benchmarks/steps/libtorch_optimizer.h"

namespace stbench {
namespace {

/// LibTorch's optimizer on the whole table, as after the backward pass of nn::Embedding. The gradient is as
/// large as the table and is made before the timed step. Every row that has a momentum moves, not only the
/// batch's.
class DenseStep final : public RowStepper {
 public:
  DenseStep(const reports::Identity& id, OptimizerFixture& fixture)
      : RowStepper(id, fixture, libtorch_equivalent(fixture.options)),
        leaf_(leaf_on(fixture.param)),
        optimizer_(fixture.options, {leaf_}) {
    optimizer_.set_state(leaf_, steps_, fixture.states);
  }
  void prepare(int set) override {
    leaf_.mutable_grad() = at::embedding_dense_backward(fixture_.grad, index(set), leaf_.size(0), -1, false);
  }
  void step(int /*set*/) override { optimizer_.step(), ++steps_; }

 private:
  [[nodiscard]] bool moves_all() const override { return true; }

  at::Tensor leaf_;
  LibtorchOptimizer optimizer_;
};

const RegisterStepMethod registration(
    "optimizer", {
                     .name = "dense",
                     .summary = "LibTorch: torch::optim on the whole table",
                     .role = harness::Role::libtorch,
                     .skip_reason = [](const auto& id) { return libtorch_lacks(optimizer_of(id)); },
                     .open = step_in<OptimizerFixture, DenseStep>,
                 });

}  // namespace
}  // namespace stbench
