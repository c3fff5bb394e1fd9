#include <ATen/ops/embedding_dense_backward.h>

#include "benchmarks/optimizer/world.h"
#include "benchmarks/steps/libtorch_optimizer.h"

namespace stbench {
namespace {

/// LibTorch's optimizer on the whole table, as after a backward of nn::Embedding: the gradient is as large as
/// the table, and ready; making it is not in the time. It moves every row that has a momentum, not only the
/// batch's.
class DenseStep final : public RowStepper {
 public:
  DenseStep(const reports::Identity& id, OptimizerWorld& world)
      : RowStepper(id, world, libtorch_equivalent(world.options)),
        leaf_(leaf_on(world.param)),
        optimizer_(world.options, {leaf_}) {
    optimizer_.set_state(leaf_, steps_, world.states);
  }
  void prepare(int set) override {
    leaf_.mutable_grad() = at::embedding_dense_backward(world_.grad, index(set), leaf_.size(0), -1, false);
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
                     .refuses = [](const auto& id) { return libtorch_lacks(optimizer_of(id)); },
                     .open = step_in<OptimizerWorld, DenseStep>,
                 });

}  // namespace
}  // namespace stbench
