#include <ATen/ATen.h>

#include <iostream>

#include "speedtorch/optim/optimizers.h"
#include "speedtorch/optimizer_factory.h"
#include "speedtorch/rows.h"

int main() {
  // The table is on the host; the model's weight has the rows of one batch, and the optimizer knows no
  // others.
  const speedtorch::Table table = speedtorch::Table::filled({20'000, 16}, at::kFloat, speedtorch::Zeros{});
  at::Tensor vectors = table.host_tensor();
  at::Tensor weight = at::zeros({1, 16}).requires_grad_(true);
  speedtorch::optim::Adamax optimizer({weight}, {.lr = 0.05});
  speedtorch::OptimizerFactory states(optimizer, weight, 20'000);

  for (int epoch = 0; epoch < 40; ++epoch) {
    const at::Tensor order = at::randperm(20'000, at::kLong);
    for (const at::Tensor& rows : order.split(2'000)) {
      at::Tensor batch = at::empty({rows.numel(), 16});
      speedtorch::gather_rows(vectors, rows, batch);
      weight.set_data(batch);
      optimizer.zero_grad();
      states.before_forward_pass(rows);  // the states of these rows go into the optimizer

      const at::Tensor loss = (weight - 1).pow(2).sum();
      loss.backward();
      optimizer.step();

      states.after_optimizer_step();  // and back into the tables
      speedtorch::scatter_rows(weight.detach(), rows, vectors);
    }
  }
  std::cout << states.steps() << " steps, every element within 0.1 of 1: "
            << ((vectors - 1).abs().max().item<float>() < 0.1F ? "yes" : "no") << '\n';
}
