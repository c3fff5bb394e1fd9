#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/sgd.h>

#include <iostream>

#include "speedtorch/tables/model_factory.h"

int main() {
  at::manual_seed(1);
  // 100,000 rows live in a file; the model has those of a batch.
  torch::nn::Embedding words(1, 64);
  speedtorch::ModelFactory factory(words->weight, 100'000, {.placement = speedtorch::Placement::mapped});
  factory.uniform_init(-0.5, 0.5, /*seed=*/1);
  torch::optim::SGD optimizer(words->parameters(), /*lr=*/1);

  at::Tensor loss;
  for (int step = 0; step < 50; ++step) {
    const at::Tensor positives = at::randint(0, 100, {256, 1}, at::kLong);  // some rows several times
    const at::Tensor negatives = at::randint(100, 200, {256, 4}, at::kLong);
    factory.before_forward_pass(positives, negatives);
    const auto& [pos, neg] = factory.positions();  // where in the parameter they are
    const at::Tensor scores = (words(pos) * words(neg)).sum(-1);
    loss = scores.pow(2).mean();
    loss.backward();
    optimizer.step();
    factory.after_optimizer_step();  // back into the table
  }
  factory.save_npy("words.npy");  // or save_torch()
  std::cout << "learned: " << (loss.item<float>() < 0.4) << '\n';
  return 0;
}
