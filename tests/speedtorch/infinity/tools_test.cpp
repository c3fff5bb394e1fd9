/// Tests of data sources, checkpoints, batch normalisation, prefetch, offload, counters and files.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/wait.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/samplers/sequential.h>
#include <torch/data/transforms/stack.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/instancenorm.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "speedtorch/files/mapped_file.h"
#include "speedtorch/infinity/checkpoint_every.h"
#include "speedtorch/infinity/comparison.h"
#include "speedtorch/infinity/layer_watch.h"
#include "speedtorch/infinity/memory_history.h"
#include "speedtorch/infinity/parameter_count.h"
#include "speedtorch/infinity/progress_listeners.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/system/system_files.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/in_child.h"
#include "tests/speedtorch/infinity/models.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch::test {
namespace {

using infinity::Warning;
using stbench::test::content_of;
using stbench::test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- data ----

/// All samples of an epoch, batch sizes first.
std::pair<std::vector<std::int64_t>, at::Tensor> walked(const Data& data, std::int64_t epoch) {
  std::vector<std::int64_t> sizes;
  Tensors inputs;
  for (auto next = data.start(epoch); const auto batch = next();) {
    sizes.push_back(batch->size());
    inputs.push_back(batch->samples(0, batch->size()).inputs[0]);
  }
  return {sizes, at::cat(inputs)};
}

TEST(Data, TensorsComeInOrderOrShuffledPerEpoch) {
  const at::Tensor rows = at::arange(10).to(at::kDouble).unsqueeze(1);
  const auto [sizes, inputs] = walked(Data::of_tensors({rows}, {rows}, {.batch = 4}), 0);
  EXPECT_THAT(sizes, ElementsAre(4, 4, 2));
  EXPECT_TRUE(inputs.equal(rows));
  const Data shuffled =
      Data::of_tensors({rows}, {rows}, {.batch = 4, .shuffle = true, .seed = 7, .drop_last = false});
  const at::Tensor first = walked(shuffled, 0).second;
  EXPECT_FALSE(first.equal(rows));
  EXPECT_TRUE(std::get<0>(first.sort(0)).equal(rows));
  EXPECT_TRUE(walked(shuffled, 0).second.equal(first));
  EXPECT_FALSE(walked(shuffled, 1).second.equal(first));
  EXPECT_THAT(walked(Data::of_tensors({rows}, {rows}, {.batch = 4, .drop_last = true}), 0).first,
              ElementsAre(4, 4));
}

TEST(Data, MappedFilesAndLoadersTrainAsTensors) {
  const TemporaryFolder folder;
  const Examples data = examples(50);
  const auto file = [&](const char* name, const at::Tensor& content) {
    return MappedFile::create(folder.path() / name, content.sizes(), content.scalar_type(),
                              [&](at::Tensor& rows) { rows.copy_(content); });
  };
  const auto trained = [&](const Data& source, bool prefetch) {
    auto net = mlp();
    torch::optim::Adam optimizer(net->parameters(), 0.01);
    auto options = quiet(6);
    options.prefetch = prefetch;
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), source, options);
    ib(3);
    EXPECT_EQ(ib.prefetched() > 0, prefetch);
    return parameters_of(net);
  };
  const Data::Order order{.batch = 20, .shuffle = true, .seed = 3};
  const Tensors of_tensors = trained(Data::of_tensors({data.inputs}, {data.classes}, order), false);
  const Data files = Data::of_files({file("x.npy", data.inputs)}, {file("y.npy", data.classes)}, order);
  EXPECT_TRUE(bitwise_equal(trained(files, false), of_tensors));
  EXPECT_TRUE(bitwise_equal(trained(files, true), of_tensors));

  auto with_targets = [&](bool stacked) {
    struct Labelled : torch::data::datasets::Dataset<Labelled> {
      explicit Labelled(Examples examples) : all(std::move(examples)) {}
      torch::data::Example<> get(std::size_t i) override {
        const auto at = static_cast<std::int64_t>(i);
        return {all.inputs[at], all.classes[at]};
      }
      std::optional<std::size_t> size() const override {
        return static_cast<std::size_t>(all.inputs.size(0));
      }
      Examples all;
    };
    if (stacked) {
      auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
          Labelled(data).map(torch::data::transforms::Stack<>()), 20);
      return trained(Data(loader), false);
    }
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(Labelled(data), 20);
    return trained(Data(*loader), false);
  };
  const Tensors in_order = trained(Data::of_tensors({data.inputs}, {data.classes}, {.batch = 20}), false);
  EXPECT_TRUE(bitwise_equal(with_targets(true), in_order));
  EXPECT_TRUE(bitwise_equal(with_targets(false), in_order));
}

TEST(Prefetch, PrefetchErrorsAppearInTheTrainingThread) {
  auto net = mlp();
  const Examples data = examples(30);
  auto options = quiet(10);
  options.prefetch = true;
  InfinityBatch ib(options);
  ib.set_model(net);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  const Batch broken(30, [&](std::int64_t first, std::int64_t count) -> infinity::Samples {
    if (first == 20) throw std::runtime_error("the disk is gone");
    return {infinity::rows_of({data.inputs}, first, count), infinity::rows_of({data.classes}, first, count)};
  });
  EXPECT_THAT([&] { ib.backward(broken); }, testing::ThrowsMessage<std::runtime_error>("the disk is gone"));
  EXPECT_NO_THROW(ib.backward({data.inputs, data.classes}));
}

// ---- batch normalisation ----

torch::nn::Sequential normalised() {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 4));
  net->to(test_device(), at::kDouble);
  return net;
}

TEST(BatchNorm, RefusalNamesAlternativesAndChangesNothing) {
  const Examples data = examples(20);
  auto net = normalised();
  const auto buffers = net->buffers();
  const at::Tensor mean = buffers[0].clone();
  InfinityBatch ib(quiet(5));
  ib.set_model(net);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  const auto refused =
      testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("BatchNorm::per_micro_batch"));
  EXPECT_THAT([&] { ib.backward({data.inputs, data.classes}); }, refused);
  EXPECT_THAT([&] { ib.batch(data.inputs); }, refused);
  EXPECT_TRUE(net->buffers()[0].equal(mean));

  // A functional batch normalisation is detected too.
  InfinityBatch of_function(quiet(5));
  of_function.set_model(
      Model(net->parameters(), [net](const at::Tensor& in) mutable { return net->forward(in); }));
  of_function.set_criterion(torch::nn::CrossEntropyLoss());
  EXPECT_THAT([&] { of_function.backward({data.inputs, data.classes}); }, refused);

  net->eval();  // running statistics are the same for each sample
  ib.backward({data.inputs, data.classes});
  const auto ours = gradients_of(net);
  net->zero_grad();
  torch::nn::CrossEntropyLoss()(net->forward(data.inputs), data.classes).backward();
  EXPECT_LE(distance(ours, gradients_of(net)), 1e-12);
}

TEST(BatchNorm, PerMicroBatchWarnsAndUsesEachMicroBatchsStatistics) {
  const Examples data = examples(20);
  auto net = normalised();
  Heard heard;
  auto options = heard.options(5);
  options.batch_norm = infinity::BatchNorm::per_micro_batch;
  InfinityBatch ib(options);
  ib.set_model(net);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  ib.backward({data.inputs, data.classes});
  EXPECT_THAT(heard.warnings, ElementsAre(Warning::batch_norm));
  auto by_hand = normalised();
  for (std::int64_t first = 0; first < 20; first += 5)
    (torch::nn::CrossEntropyLoss()(by_hand->forward(data.inputs.narrow(0, first, 5)),
                                   data.classes.narrow(0, first, 5)) /
     4)
        .backward();
  EXPECT_LE(distance(gradients_of(net), gradients_of(by_hand)), 1e-12);
  for (std::size_t i = 0; i < net->buffers().size(); ++i)
    EXPECT_TRUE(infinity::close(net->buffers()[i], by_hand->buffers()[i], 1e-12));

  // The second pass keeps the running statistics of the first.
  ib.batch(data.inputs).sum().backward();
  for (std::int64_t first = 0; first < 20; first += 5) by_hand->forward(data.inputs.narrow(0, first, 5));
  EXPECT_TRUE(infinity::close(net->buffers()[0], by_hand->buffers()[0], 1e-12));
}

torch::nn::Sequential normalised_by_instances() {
  torch::manual_seed(1);
  torch::nn::Sequential net(
      torch::nn::Linear(6, 6), torch::nn::Unflatten(torch::nn::UnflattenOptions(1, {2, 3})),
      torch::nn::InstanceNorm1d(torch::nn::InstanceNorm1dOptions(2).track_running_stats(true)),
      torch::nn::Flatten(), torch::nn::Linear(6, 4));
  net->to(test_device(), at::kDouble);
  return net;
}

/// They would move once per micro-batch, by the means of its samples.
TEST(InstanceNorm, RunningStatisticsAreRefusedUnlessAccepted) {
  const Examples data = examples(20);
  const auto refused = testing::ThrowsMessage<infinity::InfinityBatchError>(
      HasSubstr("running statistics of the model's instance normalisation would move once per micro-batch"));
  for (const auto policy : {infinity::BatchNorm::refuse, infinity::BatchNorm::exact}) {
    auto net = normalised_by_instances();
    auto options = quiet(5);
    options.batch_norm = policy;
    InfinityBatch ib(options);
    ib.set_model(net);
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    EXPECT_THAT([&] { ib.backward({data.inputs, data.classes}); }, refused);
    EXPECT_THAT([&] { ib.batch(data.inputs); }, refused);
    EXPECT_EQ(net->buffers()[0].abs().sum().item<double>(), 0);

    net->eval();  // running statistics are read, and do not move
    ib.backward({data.inputs, data.classes});
    const auto ours = gradients_of(net);
    net->zero_grad();
    torch::nn::CrossEntropyLoss()(net->forward(data.inputs), data.classes).backward();
    EXPECT_LE(distance(ours, gradients_of(net)), 1e-12);
  }
  auto net = normalised_by_instances();
  Heard heard;
  auto options = heard.options(5);
  options.batch_norm = infinity::BatchNorm::per_micro_batch;
  InfinityBatch ib(options);
  ib.set_model(net);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  ib.backward({data.inputs, data.classes});
  EXPECT_THAT(heard.texts, ElementsAre(HasSubstr("instance normalisation move once per micro-batch")));
  auto by_hand = normalised_by_instances();
  for (std::int64_t first = 0; first < 20; first += 5) by_hand->forward(data.inputs.narrow(0, first, 5));
  EXPECT_TRUE(infinity::close(net->buffers()[0], by_hand->buffers()[0], 1e-12));
}

/// Instance normalisation has statistics per sample, but LibTorch computes it through batch normalisation.
TEST(BatchNorm, InstanceNormIsNotTakenForBatchNorm) {
  const Examples data = examples(20);
  const at::Tensor weights = at::randn({6, 4}, data.inputs.options()).requires_grad_();
  const auto forward = [=](const at::Tensor& in) {
    return at::instance_norm(in.unsqueeze(1), {}, {}, {}, {}, true, 0.1, 1e-5, false)
        .squeeze(1)
        .matmul(weights);
  };
  torch::nn::CrossEntropyLoss()(forward(data.inputs), data.classes).backward();
  const at::Tensor plain = weights.grad().clone();
  for (const auto policy : {infinity::BatchNorm::refuse, infinity::BatchNorm::exact}) {
    auto options = quiet(5);
    options.batch_norm = policy;
    InfinityBatch ib(options);
    ib.set_model(Model(std::vector<at::Tensor>{weights}, forward));
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    weights.mutable_grad() = at::Tensor();
    ib.backward({data.inputs, data.classes});
    EXPECT_LE(distance({weights.grad()}, {plain}), 1e-12);
  }
}

/// After a batch without batch normalisation, operations are not traced. The first micro-batch that has one
/// runs the model again, without side effects of the first run.
TEST(BatchNorm, LaterBatchNormIsDetectedWithoutSideEffects) {
  const auto trained = [](bool later, bool training) {
    auto net = mlp(at::kDouble, 0.3);
    const auto options = at::TensorOptions(test_device()).dtype(at::kDouble);
    const at::Tensor mean = at::zeros({6}, options), variance = at::ones({6}, options);
    const at::Tensor runs = at::zeros({}, options);  // a buffer
    bool normalises = !later;
    const auto forward = [&](const at::Tensor& inputs) {
      runs.add_(1);
      if (!normalises) return net->forward(inputs);
      return net->forward(at::batch_norm(inputs, {}, {}, mean, variance, training, 0.1, 0, false));
    };
    InfinityBatch ib(quiet(4));
    ib.set_model(Model(net->parameters(), forward, {runs}));
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    const Examples data = examples(10);
    if (later) {
      ib.backward({data.inputs, data.classes});
      ib.backward({data.inputs, data.classes});
      normalises = true;
    }
    for (const at::Tensor& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
    runs.zero_();
    torch::manual_seed(5);
    ib.backward({data.inputs, data.classes});
    EXPECT_EQ(runs.item<double>(), 3);
    return gradients_of(net);
  };
  EXPECT_TRUE(bitwise_equal(trained(true, false), trained(false, false)));
  EXPECT_THAT([&] { trained(true, true); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("BatchNorm::per_micro_batch")));
}

/// Normalisations that a model calls itself, after batches without them.
TEST(BatchNorm, LaterOnesBeneathModulesAreDetected) {
  const auto options = at::TensorOptions(test_device()).dtype(at::kDouble);
  const at::Tensor mean = at::zeros({6}, options), variance = at::ones({6}, options);
  using Normalise = std::function<at::Tensor(const at::Tensor&)>;
  const auto refused_after = [&](const Normalise& normalise) {
    auto net = mlp(at::kDouble, 0);
    int batches = 0;
    const auto forward = [&](const at::Tensor& inputs) {
      return net->forward(batches > 1 ? normalise(inputs) : inputs);
    };
    InfinityBatch ib(quiet(5));
    ib.set_model(Model(net->parameters(), forward, {mean, variance}));
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    const Examples data = examples(10);
    for (; batches < 2; ++batches) ib.backward({data.inputs, data.classes});
    ib.backward({data.inputs, data.classes});
  };
  const Normalise native = [&](const at::Tensor& inputs) {
    return std::get<0>(at::native_batch_norm(inputs, {}, {}, mean, variance, true, 0.1, 1e-5));
  };
  const Normalise native_out = [&](const at::Tensor& inputs) {
    at::Tensor out = at::empty_like(inputs), means = at::empty_like(mean), spreads = at::empty_like(mean);
    at::native_batch_norm_out(out, means, spreads, inputs, {}, {}, mean, variance, true, 0.1, 1e-5);
    return out;
  };
  const Normalise by_index = [&](const at::Tensor& inputs) {
    return std::get<0>(at::_batch_norm_impl_index(inputs, {}, {}, mean, variance, true, 0.1, 1e-5, false));
  };
  const Normalise of_instances = [&](const at::Tensor& inputs) {
    return at::instance_norm(inputs.unsqueeze(2).expand({-1, -1, 4}), {}, {}, mean, variance, true, 0.1, 1e-5,
                             false)
        .mean(2);
  };
  for (const auto& normalise : {native, native_out, by_index, of_instances}) {
    EXPECT_THROW(refused_after(normalise), infinity::InfinityBatchError);
    EXPECT_TRUE(mean.equal(at::zeros({6}, options))) << "not restored";
  }
  EXPECT_NO_THROW(refused_after([&](const at::Tensor& inputs) {
    return std::get<0>(at::native_batch_norm(inputs, {}, {}, mean, variance, false, 0.1, 1e-5));
  }));
}

/// LibTorch refuses to normalise a remainder of one sample ("more than 1 value per channel").
TEST(BatchNorm, PerMicroBatchLeavesNoSampleAlone) {
  const Examples data = examples(11);
  auto net = normalised();
  auto options = quiet(5);
  options.batch_norm = infinity::BatchNorm::per_micro_batch;
  InfinityBatch ib(options);
  ib.set_model(net);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  EXPECT_EQ(ib.backward({data.inputs, data.classes}).micro_batches, 3);  // 5, 4, 2
}

// ---- batch normalisation by the whole batch ----

class ExactBatchNorm : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(, ExactBatchNorm, testing::Values(1, 2, 7, 16, 49, 50, 0));

InfinityBatchOptions exactly(std::int64_t micro_batch) {
  auto options = quiet(micro_batch);
  options.batch_norm = infinity::BatchNorm::exact;
  return options;
}

/// Three normalisations in sequence: with a momentum, with the cumulative mean, and without weights and
/// running statistics.
torch::nn::Sequential thrice_normalised() {
  torch::manual_seed(1);
  torch::nn::Sequential net(
      torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Tanh(), torch::nn::Linear(8, 8),
      torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(8).momentum(std::nullopt)), torch::nn::Tanh(),
      torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(8).affine(false).track_running_stats(false)),
      torch::nn::Linear(8, 4));
  net->to(test_device(), at::kDouble);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) parameter.add_(at::rand_like(parameter));
  return net;
}

torch::nn::Sequential convolutional() {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 2)), torch::nn::BatchNorm2d(3),
                            torch::nn::ReLU(), torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 2)),
                            torch::nn::BatchNorm2d(4), torch::nn::Flatten(), torch::nn::Linear(16, 4));
  net->to(test_device(), at::kDouble);
  return net;
}

/// Compares two consecutive batches with LibTorch's results for the whole batch.
void expect_as_plain(torch::nn::Sequential ours, torch::nn::Sequential plain, const at::Tensor& inputs,
                     const at::Tensor& classes, std::int64_t micro_batch) {
  torch::nn::CrossEntropyLoss criterion;
  InfinityBatch ib(exactly(micro_batch));
  ib.set_model(ours);
  ib.set_criterion(criterion);
  for (int batch = 0; batch < 2; ++batch) {
    const auto result = ib.backward({inputs + batch, classes});
    const at::Tensor loss = criterion(plain->forward(inputs + batch), classes);
    loss.backward();
    EXPECT_NEAR(result.loss, loss.item<double>(), 1e-12);
    EXPECT_LE(distance(gradients_of(ours), gradients_of(plain)), 1e-12);
    for (std::size_t i = 0; i < plain->buffers().size(); ++i)
      EXPECT_TRUE(infinity::close(ours->buffers()[i], plain->buffers()[i], 1e-12)) << i;
  }
}

TEST_P(ExactBatchNorm, StatisticsAndGradientsEqualThePlainBatchs) {
  const Examples data = examples(50);
  expect_as_plain(thrice_normalised(), thrice_normalised(), data.inputs, data.classes, GetParam());
  torch::manual_seed(3);
  expect_as_plain(convolutional(), convolutional(), at::randn({50, 2, 4, 4}, data.inputs.options()),
                  data.classes, GetParam());
}

/// A custom loop with gradients of the inputs and a loss that couples samples.
TEST_P(ExactBatchNorm, CustomLossEqualsThePlainBatchs) {
  const auto made_by = [](auto forward) {
    auto net = thrice_normalised();
    at::Tensor inputs = examples(50).inputs.requires_grad_();
    const at::Tensor outputs = forward(net, inputs);
    (outputs.logsumexp(0) * outputs.std(0)).sum().backward();
    Tensors gradients = gradients_of(net);
    gradients.push_back(inputs.grad());
    return std::pair(gradients, net->buffers());
  };
  const auto plain = made_by([](auto& net, const at::Tensor& inputs) { return net->forward(inputs); });
  std::optional<InfinityBatch> ib;
  const auto ours = made_by([&](auto& net, const at::Tensor& inputs) {
    ib.emplace(exactly(GetParam())).set_model(net);
    return ib->batch(inputs);
  });
  EXPECT_LE(distance(ours.first, plain.first), 1e-12);
  EXPECT_LE(distance(ours.second, plain.second), 1e-12);
}

/// A functional model draws random numbers between two normalisations, and uses one module twice. at::rand of
/// a batch draws the same numbers as consecutive calls for its parts.
TEST_P(ExactBatchNorm, DrawsTheSameInEachPassAndTakesAModuleTwice) {
  const auto trained = [&](bool plain, std::int64_t samples) {
    torch::manual_seed(1);
    torch::nn::Linear linear(6, 6);
    torch::nn::BatchNorm1d norm(6);
    linear->to(test_device(), at::kDouble);
    norm->to(test_device(), at::kDouble);
    auto forward = [=](const at::Tensor& in) mutable {
      const at::Tensor first = norm(linear(in)).tanh();
      return norm(first * at::rand({in.size(0), 1}, in.options())).pow(3);
    };
    Tensors parameters = linear->parameters();
    for (const at::Tensor& parameter : norm->parameters()) parameters.push_back(parameter);
    const Examples data = examples(samples);
    torch::manual_seed(8);
    if (plain) {
      forward(data.inputs).square().mean().backward();
    } else {
      InfinityBatch ib(exactly(GetParam()));
      ib.set_model(Model(parameters, forward, norm->buffers()));
      ib.set_criterion([](const at::Tensor& out) { return out.square().mean(); });
      ib.backward(Batch(Tensors{data.inputs}));
    }
    Tensors gradients;
    for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    Tensors others = norm->buffers();
    others.push_back(at::rand({1}, data.inputs.options()));  // the generator is where it would be
    return std::pair(gradients, others);
  };
  for (const std::int64_t samples : {50, 51, 9}) {
    const auto ours = trained(false, samples);
    const auto plain = trained(true, samples);
    EXPECT_LE(distance(ours.first, plain.first), 1e-12) << samples;
    EXPECT_LE(distance(ours.second, plain.second), 1e-12) << samples;
  }
}

/// The remainder must not be one sample: an odd batch ends with one micro-batch of three instead of two and
/// one.
TEST(BatchNorm, OddBatchIsReplayedWithTheSameDraws) {
  for (const std::int64_t samples : {3, 5, 7}) {
    for (const std::int64_t size : {1, 2}) {
      torch::manual_seed(1);
      torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.5),
                                torch::nn::Linear(8, 4));
      net->to(test_device(), at::kDouble);
      const Examples data = examples(samples);
      Heard heard;
      auto options = heard.options(size);
      options.batch_norm = infinity::BatchNorm::per_micro_batch;
      InfinityBatch ib(options);
      ib.set_model(net);
      ib.set_criterion(
          Criterion([](const at::Tensor& out) { return out.square().mean(); }, infinity::Reduction::coupled));
      const auto result = ib.backward(Batch(Tensors{data.inputs}));
      EXPECT_EQ(result.micro_batches, samples / 2) << samples << " by " << size;
      EXPECT_EQ(result.largest_micro_batch, 3) << samples << " by " << size;
      const at::Tensor outputs = ib.batch(data.inputs);  // and in the custom loop
      EXPECT_NO_THROW(outputs.sum().backward()) << samples << " by " << size;
    }
  }
}

TEST(BatchNorm, ExactAppliesInTrainingModeOnly) {
  const Examples data = examples(20);
  auto net = thrice_normalised();
  net[1]->as<torch::nn::BatchNorm1d>()->eval();
  auto plain = thrice_normalised();
  plain[1]->as<torch::nn::BatchNorm1d>()->eval();
  expect_as_plain(net, plain, data.inputs, data.classes, 6);

  auto without = mlp();  // without normalisation, one pass suffices
  InfinityBatch ib(exactly(5));
  ib.set_model(without);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  int calls = 0;
  struct Counter : infinity::Listener {
    explicit Counter(int& count) : calls(count) {}
    void micro_batch(const infinity::Place&, const infinity::MicroBatchProgress&) override { ++calls; }
    int& calls;
  };
  ib.listen(std::make_shared<Counter>(calls));
  ib.backward({data.inputs, data.classes});
  EXPECT_EQ(calls, 4);
}

TEST(BatchNorm, ExactErrorInFloat32IsAtMostTwiceThePlainBatchs) {
  const Examples data = examples(400);
  const auto made_by = [&](at::ScalarType dtype, std::int64_t micro_batch) {
    auto net = thrice_normalised();
    net->to(dtype);
    const at::Tensor inputs =
        data.inputs.to(dtype) + 30;  // a mean far from zero: sums of squares would cancel
    if (micro_batch == 0) {
      torch::nn::CrossEntropyLoss()(net->forward(inputs), data.classes).backward();
    } else {
      InfinityBatch ib(exactly(micro_batch));
      ib.set_model(net);
      ib.set_criterion(torch::nn::CrossEntropyLoss());
      ib.backward({inputs, data.classes});
    }
    return gradients_of(net);
  };
  const Tensors wanted = made_by(at::kDouble, 0);
  const double plain = distance(made_by(at::kFloat, 0), wanted);
  for (const std::int64_t size : {2, 10, 64, 333})
    EXPECT_LE(distance(made_by(at::kFloat, size), wanted), 2 * plain) << size;
}

TEST(BatchNorm, ExactRefusesAModelWhoseCallsDiffer) {
  int forwards = 0;
  const at::Tensor weight = at::ones({6}, at::kDouble).requires_grad_();
  const auto forward = [&, weight](const at::Tensor& in) {
    at::Tensor out = at::batch_norm(in * weight, {}, {}, {}, {}, true, 0.1, 1e-5, false);
    if (++forwards == 3) out = at::batch_norm(out, {}, {}, {}, {}, true, 0.1, 1e-5, false);
    return out;
  };
  InfinityBatch ib(exactly(5));
  ib.set_model(Model(std::vector<at::Tensor>{weight}, forward));
  ib.set_criterion([](const at::Tensor& out) { return out.square().mean(); });
  EXPECT_THAT(
      [&] { ib.backward(Batch(Tensors{examples(20).inputs})); },
      testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("more often than in the first")));
}

// ---- offload ----

TEST(Offload, OffloadKeepsGradientsAndUnpacksWhatItPacks) {
  const Examples data = examples(64);
  const auto trained = [&](std::int64_t offload, infinity::OffloadFigures* figures) {
    auto net = mlp();
    auto options = quiet(32);
    options.offload_at_least = offload;
    InfinityBatch ib(options);
    ib.set_model(net);
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    ib.backward({data.inputs, data.classes});
    if (figures) *figures = ib.offloaded();
    return gradients_of(net);
  };
  infinity::OffloadFigures figures;
  const Tensors with = trained(1, &figures);
  EXPECT_TRUE(bitwise_equal(with, trained(0, nullptr)));
  EXPECT_GT(figures.packed, 0);
  EXPECT_EQ(figures.packed, figures.unpacked);
  EXPECT_EQ(figures.packed_bytes, figures.unpacked_bytes);
  EXPECT_GE(figures.packed_bytes,
            2 * 32 * (6 + 16 + 16) * 8);  // inputs, activations and what dropout and tanh keep
  infinity::OffloadFigures none;
  trained(1 << 20, &none);
  EXPECT_EQ(none.packed, 0);
}

// ---- states ----

/// Trains two epochs, loads a checkpoint into new objects, and trains two more.
template <class MakeOptimizer>
Tensors trained_with(MakeOptimizer make, std::optional<TableOptions> home, bool by_checkpoint) {
  const TemporaryFolder folder;
  const Examples data = examples(40);
  const Data source = Data::of_tensors({data.inputs}, {data.classes}, {.batch = 20});
  auto options = quiet(8);
  options.states_home = home;
  auto net = mlp(at::kDouble, 0.2);
  auto optimizer = make(net->parameters());
  InfinityBatch ib(net, *optimizer, torch::nn::CrossEntropyLoss(), source, options);
  torch::manual_seed(5);
  ib(2);
  if (home) {
    EXPECT_GE(ib.hosted_state_bytes(), (6 * 16 + 16 + 16 * 4 + 4) * 8);
  }
  if (!by_checkpoint) {
    ib(2);
    return parameters_of(net);
  }
  ib.save(folder.path() / "c");
  auto other = mlp(at::kDouble, 0.2, 9);
  auto its = make(other->parameters());
  InfinityBatch after(other, *its, torch::nn::CrossEntropyLoss(), source, options);
  after.resume(folder.path() / "c");
  after(2);
  return parameters_of(other);
}

TEST(States, StatesInATableStepAsTheOptimizersOwn) {
  const auto compare = [&](auto make) {
    const Tensors wanted = trained_with(make, std::nullopt, false);
    EXPECT_TRUE(bitwise_equal(trained_with(make, std::nullopt, true), wanted));
    for (const TableOptions& home :
         {TableOptions{.placement = Placement::hugepage}, TableOptions{.placement = Placement::mapped}})
      for (const bool by_checkpoint : {false, true})
        EXPECT_TRUE(bitwise_equal(trained_with(make, home, by_checkpoint), wanted));
  };
  using Parameters = std::vector<at::Tensor>;
  compare([](Parameters all) {
    return std::make_unique<torch::optim::Adam>(all, torch::optim::AdamOptions(0.01).amsgrad(true));
  });
  compare([](Parameters all) {
    return std::make_unique<torch::optim::SGD>(all, torch::optim::SGDOptions(0.1).momentum(0.9));
  });
  compare([](Parameters all) { return std::make_unique<optim::Adadelta>(all); });
  compare([](Parameters all) { return std::make_unique<optim::Rprop>(all); });
}

TEST(States, CustomOptimizersKeepTheirOwnStates) {
  auto net = mlp();
  ContiguousOptimizer optimizer(net->parameters(), AdamOptions{});
  auto options = quiet(8);
  options.states_home = TableOptions{};
  const Examples data = examples(20);
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                   Data(std::vector<Batch>{{data.inputs, data.classes}}), options);
  EXPECT_THAT([&] { ib.epoch(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("options.buffers.placement")));
}

/// Equals the manual loop with the same optimizer, without a copy before the step. A checkpoint resumes bit
/// for bit.
TEST(States, ContiguousStatesAreNotCopiedBeforeAStep) {
  const Examples data = examples(40);
  const TemporaryFolder folder;
  const auto by_hand = [&] {
    auto net = mlp();
    ContiguousOptimizer optimizer(net->parameters(), AdamWOptions{.lr = 0.01});
    for (int step = 0; step < 6; ++step) {
      torch::nn::CrossEntropyLoss()(net->forward(data.inputs), data.classes).backward();
      optimizer.step({.max_norm = 0.1});
      optimizer.zero_grad();
    }
    return parameters_of(net);
  };
  auto net = mlp();
  ContiguousOptimizer optimizer(net->parameters(), AdamWOptions{.lr = 0.01});
  const Data source(std::vector<Batch>{{data.inputs, data.classes}});
  InfinityBatch ib(net, Optimizer(optimizer, {.max_norm = 0.1}), torch::nn::CrossEntropyLoss(), source,
                   quiet(9));
  ib(3);
  ib.save(folder.path() / "c");
  ib(3);
  EXPECT_EQ(ib.step_copy_bytes(), 0);
  EXPECT_LE(distance(parameters_of(net), by_hand()), 1e-12);

  auto other = mlp(at::kDouble, 0, 9);
  ContiguousOptimizer its(other->parameters(), AdamWOptions{.lr = 0.01});
  InfinityBatch after(other, Optimizer(its, {.max_norm = 0.1}), torch::nn::CrossEntropyLoss(), source,
                      quiet(9));
  after.resume(folder.path() / "c");
  after(3);
  EXPECT_TRUE(bitwise_equal(parameters_of(other), parameters_of(net)));
}

// ---- checkpoints ----

struct Trainer {
  torch::nn::Sequential net = mlp(at::kDouble, 0.3);
  torch::optim::Adam optimizer{net->parameters(), 0.01};
  Examples data = examples(60);
  InfinityBatch ib{net, optimizer, torch::nn::CrossEntropyLoss(),
                   Data::of_tensors({data.inputs}, {data.classes}, {.batch = 13, .shuffle = true, .seed = 4}),
                   quiet(5)};
};

constexpr std::int64_t kEpochs = 6;

TEST(Checkpoint, KilledProcessResumesBitForBit) {
  at::set_num_threads(1);  // a forked child has no other threads
  Trainer undisturbed;
  torch::manual_seed(99);
  infinity::EpochRecord wanted;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) wanted = undisturbed.ib.epoch();

  const TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt";
  int kills = 0;
  infinity::EpochRecord last;
  for (int round = 0; round < 12; ++round) {
    const bool to_the_end = round == 11;
    Trainer trainer;
    torch::manual_seed(99);
    if (std::filesystem::exists(path)) trainer.ib.resume(path);
    const pid_t child = to_the_end ? 0 : ::fork();
    if (to_the_end || child == 0) {
      trainer.ib.listen(std::make_shared<infinity::CheckpointEvery>(trainer.ib, path, 1));
      struct Slow : infinity::Listener {
        void stepped(const infinity::Place&) override {
          std::this_thread::sleep_for(std::chrono::milliseconds(3));
        }
      };
      if (!to_the_end) trainer.ib.listen(std::make_shared<Slow>());
      while (trainer.ib.place().epoch < kEpochs) last = trainer.ib.epoch();
      if (child == 0 && !to_the_end) ::_exit(0);
      EXPECT_TRUE(bitwise_equal(parameters_of(trainer.net), parameters_of(undisturbed.net)));
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 7 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    kills += WIFSIGNALED(status) ? 1 : 0;
  }
  EXPECT_GT(kills, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  if (last.samples > 0) {
    EXPECT_DOUBLE_EQ(last.loss, wanted.loss);
  }
}

TEST(Checkpoint, AnotherModelIsRefusedWithoutChanges) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt";
  Trainer trainer;
  trainer.ib.epoch();
  trainer.ib.save(path);
  torch::manual_seed(1);
  torch::nn::Linear other(6, 4);
  const Tensors before = parameters_of(other);
  torch::optim::SGD optimizer(other->parameters(), 0.1);
  InfinityBatch ib(quiet(5));
  ib.set_model(other);
  ib.set_optimizer(optimizer);
  EXPECT_THAT([&] { ib.resume(path); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("other parameters")));
  EXPECT_TRUE(bitwise_equal(parameters_of(other), before));
  EXPECT_THAT([&] { ib.resume(path + "x"); }, testing::ThrowsMessage<FileError>(HasSubstr("cannot be read")));
}

TEST(Checkpoint, OtherOptimizersOrDtypesAreRefusedWithoutChanges) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt";
  Trainer trainer;
  trainer.ib.epoch();
  trainer.ib.save(path);
  const auto refused_by = [&](torch::nn::Sequential net, std::vector<Optimizer> optimizers, const char* why) {
    const Tensors before = parameters_of(net);
    InfinityBatch ib(quiet(5));
    ib.set_model(net);
    ib.set_optimizers(std::move(optimizers));
    EXPECT_THAT([&] { ib.resume(path); },
                testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr(why)));
    EXPECT_TRUE(bitwise_equal(parameters_of(net), before));
  };
  auto net = mlp(at::kDouble, 0.3, 7);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  refused_by(net, {sgd}, "SGD");
  torch::optim::Adam adam(net->parameters());
  refused_by(net, {adam, sgd}, "other optimizers");
  auto of_floats = mlp(at::kFloat, 0.3, 7);
  torch::optim::Adam its(of_floats->parameters());
  refused_by(of_floats, {its}, "other parameters");
}

TEST(Checkpoint, DamagedFileIsAFileErrorOfOneLine) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt";
  Trainer trainer;
  trainer.ib.epoch();
  trainer.ib.save(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const Tensors before = parameters_of(trainer.net);
  try {
    trainer.ib.resume(path);
    FAIL() << "nothing was thrown";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("'training.pt' is no whole checkpoint"),
                                             testing::Not(HasSubstr("\n"))));
  }
  EXPECT_TRUE(bitwise_equal(parameters_of(trainer.net), before));
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

/// Flips bits in the tensors' bytes, which LibTorch's reader does not check, and in all bytes, which used to
/// cause other errors than FileError.
TEST(Checkpoint, FlippedBitIsAFileErrorThatNamesTheEntry) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt", damaged_path = folder.path() / "damaged.pt";
  Trainer trainer;
  trainer.ib.epoch();
  trainer.ib.save(path);
  const std::string whole = content_of(path);
  const Tensors before = parameters_of(trainer.net);
  const auto resume_damaged = [&](std::size_t at, int mask) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ mask);
    std::ofstream(damaged_path, std::ios::binary | std::ios::trunc) << damaged;
    trainer.ib.resume(damaged_path);
  };
  for (const at::Tensor& parameter : before) {
    const auto bytes = parameter.contiguous();
    const auto begin =
        whole.find(std::string(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()));
    ASSERT_NE(begin, std::string::npos);
    for (std::size_t at = 0; at < bytes.nbytes(); at += 97)
      EXPECT_THAT([&] { resume_damaged(begin + at, 1 << at % 8); },
                  testing::ThrowsMessage<FileError>(testing::AllOf(
                      HasSubstr("'damaged.pt'"), HasSubstr("its entry '"), HasSubstr("is damaged"))));
  }
  std::mt19937_64 random(5);
  for (int k = 0; k < 100; ++k) {
    try {
      resume_damaged(random() % whole.size(), 1 + static_cast<int>(random() % 255));
    } catch (const FileError&) {
    }  // any other exception fails the test
    EXPECT_TRUE(bitwise_equal(parameters_of(trainer.net), before));
  }
}

/// Saves after the first step of an epoch.
struct SaveFirst : infinity::Listener {
  SaveFirst(InfinityBatch& training, std::string name) : ib(training), file(std::move(name)) {}
  void stepped(const infinity::Place& place) override {
    if (place.step == 1) ib.save(file);
  }
  InfinityBatch& ib;
  std::string file;
};

/// A NaN loss, and the micro-batch sizes, which affect further training.
TEST(Checkpoint, CheckpointKeepsNonFiniteSumsAndSizes) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt";
  const auto make = [](torch::nn::Sequential& net, torch::optim::SGD& optimizer) {
    const at::Tensor inputs = examples(20).inputs;
    auto options = quiet();
    options.micro_batch.first = 3;
    return std::make_unique<InfinityBatch>(
        net, optimizer, [](const at::Tensor& out) { return (out * std::nan("")).mean(); },
        Data(std::vector<Batch>{Batch(Tensors{inputs}), Batch(Tensors{inputs})}), options);
  };
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto ib = make(net, optimizer);
  ib->listen(std::make_shared<SaveFirst>(*ib, path));
  const auto wanted = ib->epoch();
  auto other = mlp();
  torch::optim::SGD its(other->parameters(), 0.1);
  const auto after = make(other, its);
  after->resume(path);
  EXPECT_GT(after->micro_batch_size().entries().size(), 0U);
  const auto found = after->epoch();
  EXPECT_EQ(found.samples, 40);
  EXPECT_TRUE(std::isnan(found.loss));
  EXPECT_EQ(found.micro_batches, wanted.micro_batches);
  EXPECT_EQ(found.largest_micro_batch, wanted.largest_micro_batch);
}

TEST(Checkpoint, CheckpointKeepsTheSumsOfALossOfParts) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "training.pt";
  const Examples data = examples(40);
  const auto make = [&](torch::nn::Sequential& net, torch::optim::SGD& optimizer) {
    const auto size = [](const at::Tensor& out, const at::Tensor&) { return out.square().mean(); };
    const std::vector<Batch> batches(2, Batch{data.inputs, data.classes});
    return std::make_unique<InfinityBatch>(
        Model::chain({net}), std::vector<Optimizer>{optimizer},
        Criterion::weighted({{"classes", torch::nn::CrossEntropyLoss()}, {"size", size}}, {1.0, 0.1}),
        Data(batches), quiet(9));
  };
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto ib = make(net, optimizer);
  ib->listen(std::make_shared<SaveFirst>(*ib, path));
  const auto wanted = ib->epoch();
  ASSERT_EQ(wanted.of_parts.size(), 2U);
  auto other = mlp(at::kDouble, 0, 9);
  torch::optim::SGD its(other->parameters(), 0.1);
  const auto after = make(other, its);
  after->resume(path);
  EXPECT_EQ(after->epoch().of_parts, wanted.of_parts);
}

TEST(Checkpoint, SavingInABatchOrEveryZeroStepsIsRefused) {
  Trainer trainer;
  EXPECT_THAT([&] { infinity::CheckpointEvery(trainer.ib, "x", 0); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("every 0 steps")));
  struct TooSoon : infinity::Listener {
    explicit TooSoon(InfinityBatch& training) : ib(training) {}
    void batch_ends(const infinity::BatchRecord&) override { ib.save("never-made"); }
    InfinityBatch& ib;
  };
  trainer.ib.listen(std::make_shared<TooSoon>(trainer.ib));
  EXPECT_THAT([&] { trainer.ib.epoch(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("call it in stepped()")));
}

// ---- a prefetching thread that is not there ----

/// The child has its own copy of the memory at the fork, and a single thread.
TEST(Prefetching, ForkedChildFetchesItself) {
  auto net = mlp();
  const Examples data = examples(40);
  auto options = quiet(7);
  options.prefetch = true;
  auto ib = std::make_unique<InfinityBatch>(options);
  ib->set_model(net);
  ib->set_criterion(torch::nn::CrossEntropyLoss());
  const auto loss = [&] {
    return ib->eval(Data::of_tensors({data.inputs}, {data.classes}, {.batch = 40})).loss;
  };
  const double expected = loss();
  const auto fetched = ib->prefetched();
  EXPECT_GT(fetched, 0);
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(in_forked_child([&] {
                at::set_num_threads(1);
                const bool same = loss() == expected && ib->prefetched() == 0;
                ib.reset();
                return same;
              }),
              "right");
  }
  EXPECT_EQ(loss(), expected);
  EXPECT_EQ(ib->prefetched(), 2 * fetched) << "of the parent";
}

TEST(Prefetching, MissingThreadIsAnErrorThatNamesTheLimit) {
  auto options = quiet(7);
  options.prefetch = true;
  auto net = mlp();
  EXPECT_THAT(in_child([&] {
                if (!take_away_threads()) return std::string("the limit cannot be set");
                return refusal<ThreadError>([&] { InfinityBatch(options).set_model(net); });
              }),
              testing::AllOf(HasSubstr("(options.prefetch): Resource temporarily unavailable"),
                             HasSubstr("the limit on processes (RLIMIT_NPROC, ulimit -u) is 1")));
}

// ---- counters, comparison, history ----

TEST(ParameterCount, CountsLayersFrozenAndTrainable) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(6, 16), torch::nn::Tanh(), torch::nn::Linear(16, 4),
                            torch::nn::BatchNorm1d(4), torch::nn::Linear(16, 4));
  net[2]->as<torch::nn::Linear>()->weight.requires_grad_(false);
  const auto count = infinity::count_parameters(net);
  EXPECT_EQ(count.all.layer, "all");
  ASSERT_GE(count.layers.size(), 3U);
  EXPECT_EQ(count.layers[0].layer, "0");
  EXPECT_EQ(count.layers[0].elements, 6 * 16 + 16);
  EXPECT_EQ(count.layers[1].frozen(), 16 * 4);
  EXPECT_EQ(count.layers[1].bytes, (16 * 4 + 4) * 4);
  // 6 to 16, 16 to 4, a scale and a shift of 4, 16 to 4: in all, and of it the frozen weight.
  EXPECT_EQ(count.all.elements, (6 * 16 + 16) + (16 * 4 + 4) + (4 + 4) + (16 * 4 + 4));
  EXPECT_EQ(count.all.frozen(), 16 * 4);
}

TEST(ParameterCount, TiedParametersCountOnce) {
  torch::nn::Linear one(6, 6);
  const Model model(std::vector<Model>{one, one}, [](const at::Tensor& in) { return in; });
  const auto count = infinity::count_parameters(model);
  EXPECT_EQ(count.all.elements, 42);
  EXPECT_EQ(count.all.tied, 42);
  EXPECT_EQ(count.all.bytes, 168);
}

TEST(ParameterCount, TimesEachLayerByItsOperations) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(64, 2000), torch::nn::Linear(2000, 8));
  net->to(test_device());
  const auto began = std::chrono::steady_clock::now();
  const auto count =
      infinity::count_parameters(net, {at::randn({256, 64}, at::TensorOptions(test_device()))});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_GT(count.layers[0].seconds, 0);
  EXPECT_GT(count.layers[1].seconds, 0);
  EXPECT_GE(count.all.seconds, count.layers[0].seconds + count.layers[1].seconds - 1e-9);
  EXPECT_LE(count.all.seconds, took.count());
  EXPECT_THAT(infinity::to_string(count), testing::AllOf(HasSubstr("forward ms"), HasSubstr("130000")));
}

TEST(Comparison, DifferencesAreReportedAndEqualityIsNot) {
  EXPECT_TRUE(infinity::close(1.0, 1.0 + 1e-9));
  EXPECT_FALSE(infinity::close(1.0, 1.1));
  EXPECT_TRUE(infinity::close(at::scalar_tensor(2.0), at::scalar_tensor(2.0)));
  EXPECT_FALSE(infinity::close(at::ones({3}), at::zeros({3})));
  EXPECT_FALSE(infinity::close(at::ones({3}), at::ones({4})));
  EXPECT_FALSE(infinity::close(at::full({1}, std::nan("")), at::ones({1})));
  auto a = mlp();
  auto b = mlp();
  EXPECT_TRUE(infinity::equal_networks(a, b));
  {
    const at::NoGradGuard no_grad;
    b->parameters()[1].select(0, 0).add_(1e-3);
  }
  EXPECT_FALSE(infinity::equal_networks(a, b));
  const auto found = infinity::differences(a, b, 1e-6);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "parameter 0.bias");
  EXPECT_NEAR(found[0].largest, 1e-3, 1e-9);
  EXPECT_TRUE(infinity::differences(a, b, 1e-2).empty());
}

TEST(Determinize, SeededTrainingRepeats) {
  const auto trained = [](std::uint64_t seed) {
    infinity::determinize(seed);
    torch::nn::Sequential net(torch::nn::Linear(6, 16), torch::nn::Dropout(0.5), torch::nn::Linear(16, 4));
    net->to(test_device());
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const at::Tensor inputs = at::randn({30, 6}, at::TensorOptions(test_device()));
    InfinityBatch ib(
        net, optimizer, [](const at::Tensor& out) { return out.square().mean(); },
        Data(std::vector<Batch>{Batch(Tensors{inputs})}), quiet(7));
    ib(3);
    return parameters_of(net);
  };
  EXPECT_TRUE(bitwise_equal(trained(1), trained(1)));
  EXPECT_FALSE(bitwise_equal(trained(1), trained(2)));
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  infinity::determinize(1, false);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST(MemoryHistory, HistoryIsBoundedAndShowsChanges) {
  infinity::MemoryHistory history(2);
  history.append("before");
  history.append({"a label of more than twenty characters", c10::kCPU, 1'000'000'000, 5'000'000, 3'000'000});
  history.append({"then", c10::kCPU, 1'000'000'000, 9'000'000, 4'500'000});
  ASSERT_EQ(history.snapshots().size(), 2U);
  EXPECT_EQ(history.snapshots()[0].label, "a label of more than");
  EXPECT_EQ(history.snapshots()[0].free_cache(), 2'000'000);
  EXPECT_THAT(history.to_string(), testing::ContainsRegex("then +cpu +1000.0 +9.0 +4.5 +4.5 +\\+1.5"));
  EXPECT_EQ(infinity::memory_snapshot(c10::kCPU).total, SystemFiles().bytes("/proc/meminfo", "MemTotal"));
}

// ---- listeners ----

void train_with(const std::shared_ptr<infinity::Listener>& listener) {
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const Examples data = examples(20);
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                   Data::of_tensors({data.inputs}, {data.classes}, {.batch = 12}), quiet(8));
  ib.listen(listener);
  ib(2);
}

TEST(StatsFile, StatsHaveOneLinePerBatchAndEpochInCsvAndJson) {
  const TemporaryFolder folder;
  const std::string csv = folder.path() / "stats.csv";
  train_with(std::make_shared<infinity::StatsFile>(csv));
  std::istringstream lines(content_of(csv));
  std::vector<std::string> kinds;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 10) << line;
    kinds.push_back(line.substr(0, line.find(',')));
  }
  EXPECT_THAT(kinds, ElementsAre("kind", "batch", "batch", "epoch", "batch", "batch", "epoch"));

  const std::string json = folder.path() / "stats.json";
  train_with(std::make_shared<infinity::StatsFile>(json));
  std::istringstream objects(content_of(json));
  double batches = 0;
  double epochs = 0;
  for (std::string line; std::getline(objects, line);) {
    const auto object = nlohmann::json::parse(line);
    (object["kind"] == "batch" ? batches : epochs) +=
        object["loss"].get<double>() * object["samples"].get<double>();
  }
  EXPECT_GT(batches, 0);
  EXPECT_NEAR(batches, epochs, 1e-9);  // an epoch's loss is that of its batches
  const std::string bad = folder.path() / "nan.json";
  const infinity::BatchResult result{.loss = std::nan(""), .samples = 3};
  infinity::StatsFile(bad).batch_ends({.result = &result, .seconds = 1});
  EXPECT_THAT(content_of(bad), HasSubstr("\"loss\": null"));
  EXPECT_THROW(infinity::StatsFile(folder.path() / "no" / "folder.csv"), FileError);
}

TEST(StatsFile, AppendsToAFileWithoutASecondHeader) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "stats.csv").string();
  const infinity::BatchResult result{.samples = 3};
  for (int run = 0; run < 2; ++run) infinity::StatsFile(path).batch_ends({.result = &result, .seconds = 1});
  const auto content = content_of(path);
  EXPECT_EQ(std::count(content.begin(), content.end(), '\n'), 3);
  EXPECT_EQ(content.rfind("kind"), 0);
}

TEST(StatsFile, AWriteBeyondTheLimitIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  const infinity::BatchResult result{.samples = 3};
  const auto limited = [&](const char* name, rlim_t bytes) {
    return test::in_child([&] {
      const struct rlimit limit { bytes, bytes };
      ::setrlimit(RLIMIT_FSIZE, &limit);
      infinity::StatsFile stats((folder.path() / name).string());
      for (int batch = 0; batch < 9; ++batch) stats.batch_ends({.result = &result, .seconds = 1});
      return std::string("written");
    });
  };
  EXPECT_THAT(limited("stats.csv", 10),
              HasSubstr("'stats.csv' cannot be written, stats are lost: File too large"));
  EXPECT_EQ(content_of(folder.path() / "stats.csv"), "");
  EXPECT_THAT(limited("stats.json", 300), HasSubstr("'stats.json' cannot be written, stats are lost"));
  EXPECT_TRUE(content_of(folder.path() / "stats.json").ends_with("}\n")) << "half a line stayed";
}

TEST(ProgressBar, ProgressFollowsTheVerbosity) {
  const auto said = [](infinity::Verbosity verbosity) {
    std::FILE* file = std::tmpfile();
    train_with(std::make_shared<infinity::ProgressBar>(verbosity, file));
    std::rewind(file);
    std::string text(2000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  const auto said_to_a_terminal = [](infinity::Verbosity verbosity) {
    int ours = -1;
    int theirs = -1;
    EXPECT_EQ(::openpty(&ours, &theirs, nullptr, nullptr, nullptr), 0);
    std::FILE* terminal = ::fdopen(theirs, "w");
    train_with(std::make_shared<infinity::ProgressBar>(verbosity, terminal));
    std::string text(2000, '\0');
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ours, text.data(), text.size()))));
    std::fclose(terminal);
    ::close(ours);
    return text;
  };
  EXPECT_THAT(said_to_a_terminal(infinity::Verbosity::batches), HasSubstr("batch 1, loss 1."));
  EXPECT_THAT(said_to_a_terminal(infinity::Verbosity::epochs),
              testing::AllOf(HasSubstr("epoch 1/2: loss 1."), testing::Not(HasSubstr("batch 1, loss"))));
  EXPECT_EQ(said(infinity::Verbosity::quiet), "");
  for (const auto verbosity : {infinity::Verbosity::epochs, infinity::Verbosity::batches})
    EXPECT_THAT(said(verbosity),
                testing::AllOf(HasSubstr("epoch 1/2: loss 1."), HasSubstr("20 samples in 2 batches"),
                               testing::Not(HasSubstr("\r"))));
}

TEST(Display, DisplayReceivesEachBatchAndMayStop) {
  int shown = 0;
  train_with(std::make_shared<infinity::Display>(
      [&](const infinity::Display::Now& now) {
        ++shown;
        EXPECT_GT(now.loss, 0);
        EXPECT_GT(now.samples, 0);
      },
      [&] { return shown == 3; }));
  EXPECT_EQ(shown, 3);
}

}  // namespace
}  // namespace speedtorch::test
