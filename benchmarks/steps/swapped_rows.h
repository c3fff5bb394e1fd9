/// SpeedTorch's way to step a table: small tensors take the rows of a batch, and their states.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "benchmarks/steps/libtorch_optimizer.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/tables/model_factory.h"

namespace stbench {

/// One table. The distinct rows of a batch and their states are small tensors of an optimizer (LibTorch's, or
/// ours if it has none).
class SwappedRows {
 public:
  SwappedRows(const speedtorch::Table& table, const std::vector<speedtorch::Table>& states,
              const speedtorch::UpdateOptions& options, std::int64_t steps)
      : leaf_(leaf_for(table.tensor())),
        optimizer_(optimizer_to_swap(options, {leaf_})),
        rows_(leaf_, table),
        states_(*optimizer_, leaf_, states) {
    states_.set_steps(steps);
  }

  /// Gathers the rows that an index names. @returns for each index its row of the leaf
  const at::Tensor& take(const at::Tensor& index) {
    rows_.before_forward_pass(index);
    states_.before_forward_pass(rows_);
    return rows_.positions().positives;
  }
  /// Steps them by the leaf's gradient, and scatters them back.
  void step() {
    optimizer_->step();
    states_.after_optimizer_step();
    rows_.after_optimizer_step();
  }
  at::Tensor& leaf() { return leaf_; }
  void set_rate(double rate) { stbench::set_rate(*optimizer_, rate); }

 private:
  at::Tensor leaf_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  speedtorch::ModelFactory rows_;
  speedtorch::OptimizerFactory states_;
};

}  // namespace stbench
