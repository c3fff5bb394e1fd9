#include <ATen/ops/_unique2.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>

#include "benchmarks/libtorch_optimizer.h"
#include "benchmarks/optimizer/world.h"
#include "speedtorch/rows.h"

namespace stbench {
namespace {

/// SpeedTorch's way: the batch's rows and their states are gathered, LibTorch's optimizer steps the small
/// tensors, and they are scattered back. Copies of a row are summed first, or each would be trained by
/// itself.
class SwapStep final : public RowStepper {
 public:
  SwapStep(const reports::Identity& id, OptimizerWorld& world)
      : RowStepper(id, world, libtorch_equivalent(world.options)),
        leaf_(leaf_on(world.param.slice(0, 0, 0))),
        optimizer_(world.options, {leaf_}) {}

  void step(int set) override {
    const auto [rows, place, counts] = at::_unique2(index(set), true, true);
    leaf_.set_data(gathered(world_.param, rows));
    leaf_.mutable_grad() = at::embedding_dense_backward(world_.grad, place, rows.size(0), -1, false);
    std::vector<at::Tensor> states;
    for (const auto& table : world_.states) states.push_back(gathered(table, rows));
    optimizer_.set_state(leaf_, steps_++, states);
    optimizer_.step();
    speedtorch::scatter_rows(leaf_.detach(), rows, world_.param);
    for (std::size_t k = 0; k < states.size(); ++k)
      speedtorch::scatter_rows(states[k], rows, world_.states[k]);
  }

 private:
  static at::Tensor gathered(const at::Tensor& table, const at::Tensor& rows) {
    auto small = at::empty({rows.size(0), table.size(1)}, table.options());
    speedtorch::gather_rows(table, rows, small);
    return small;
  }

  at::Tensor leaf_;
  LibtorchOptimizer optimizer_;
};

const RegisterStepMethod registration(
    "optimizer", {
                     .name = "swap",
                     .summary = "this library's rows there and back around torch::optim",
                     .role = harness::Role::ours,
                     .refuses = [](const auto& id) { return libtorch_lacks(optimizer_of(id)); },
                     .open = step_in<OptimizerWorld, SwapStep>,
                 });

}  // namespace
}  // namespace stbench
