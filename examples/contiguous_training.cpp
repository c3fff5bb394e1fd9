// A training loop of LibTorch's, turned over in two lines: the include and the optimizer.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <iostream>

#include "speedtorch/contiguous/optimizer.h"  // was <torch/optim/adam.h>

int main() {
  namespace nn = torch::nn;
  at::manual_seed(1);
  nn::Sequential model(nn::Linear(8, 64), nn::ReLU(), nn::Linear(64, 1));
  speedtorch::ContiguousOptimizer optimizer(model->parameters(), speedtorch::AdamOptions{.lr = 0.01});
  //    was torch::optim::Adam    optimizer(model->parameters(), torch::optim::AdamOptions(0.01));

  const auto input = at::randn({256, 8});
  const auto target = input.sum(1, true).sin();
  for (int epoch = 0; epoch < 200; ++epoch) {
    optimizer.zero_grad();
    const auto loss = nn::functional::mse_loss(model->forward(input), target);
    loss.backward();
    optimizer.step();
    if (epoch % 50 == 49) std::cout << "epoch " << epoch + 1 << " loss " << loss.item<float>() << '\n';
  }
  return 0;
}
