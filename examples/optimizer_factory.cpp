#include <ATen/ATen.h>

#include <iostream>

#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/tables/model_factory.h"

int main() {
  // 20,000 rows and their states are in tables on the host; the model's weight and its optimizer have those
  // of one batch and know no others.
  at::Tensor weight = at::zeros({1, 16}).requires_grad_();
  speedtorch::optim::Adamax optimizer({weight}, {.lr = 0.05});
  speedtorch::ModelFactory vectors(weight, 20'000);
  speedtorch::OptimizerFactory states(optimizer, weight, 20'000);
  vectors.zeros_init();

  for (int epoch = 0; epoch < 40; ++epoch) {
    for (const at::Tensor& batch : at::randperm(20'000, at::kLong).split(2'000)) {
      vectors.before_forward_pass(batch);   // the rows go into the weight,
      states.before_forward_pass(vectors);  // and their states into the optimizer

      const at::Tensor rows = at::embedding(weight, vectors.positions().positives);
      const at::Tensor loss = (rows - 1).pow(2).sum();
      loss.backward();
      optimizer.step();

      states.after_optimizer_step();  // and back into the tables
      vectors.after_optimizer_step();
    }
  }
  std::cout << states.steps() << " steps, every element within 0.1 of 1: "
            << ((vectors.host_copy() - 1).abs().max().item<float>() < 0.1F ? "yes" : "no") << '\n';
  return 0;
}
