#include <ATen/ATen.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/optim/adam.h>

#include <iostream>

#include "speedtorch/infinity/infinity_batch.h"

using speedtorch::InfinityBatch;
using speedtorch::infinity::Data;

int main() {
  at::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(20, 64), torch::nn::ReLU(), torch::nn::Linear(64, 2));
  torch::nn::CrossEntropyLoss criterion;
  torch::optim::Adam optimizer(model->parameters());

  const at::Tensor inputs = at::randn({5000, 20});
  const at::Tensor targets = inputs.sum(1).gt(0).to(at::kLong);
  const Data data = Data::of_tensors({inputs}, {targets}, {.batch = 1000, .shuffle = true});

  InfinityBatch ib;
  ib.set_model(model);
  ib.set_criterion(criterion);
  ib.set_optimizer(optimizer);
  ib.set_data(data);

  // Simple use.
  ib(10);

  // Epoch use.
  for (int epoch = 0; epoch < 5; ++epoch) {
    // Additional code can be added here...
    ib.epoch();
    // And also here...
  }

  // Custom use.
  for (int epoch = 0; epoch < 5; ++epoch) {
    auto next = data.start(epoch);
    while (auto batch = next()) {
      const auto samples = batch->samples(0, batch->size());
      const at::Tensor outputs = ib.batch(samples.inputs[0]);
      at::Tensor loss = criterion(outputs, samples.targets[0]);
      loss.backward();
      ib.step();
      ib.zero_grad();
    }
  }

  const auto right = [](const auto& outputs, const auto& classes) {
    return outputs[0].argmax(1).eq(classes[0]).to(at::kDouble).mean().template item<double>();
  };
  const double accuracy = ib.eval(data, {{"right", right}}).metrics.at("right");
  std::cout << (accuracy > 0.95 ? "more" : "less") << " than 95 % are right\n";
  return 0;
}
