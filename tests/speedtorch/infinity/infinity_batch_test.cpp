/// Gradients of micro-batches against those of the plain batch, the three ways of use, and what they refuse.
#include "speedtorch/infinity_batch.h"

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>

#include "tests/speedtorch/infinity/models.h"

namespace speedtorch::test {
namespace {

using infinity::Warning;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The gradients of the whole batch at once, by LibTorch alone.
template <class Net, class Loss>
Tensors plain_gradients(Net& net, const at::Tensor& inputs, const at::Tensor& targets, Loss loss) {
  net->zero_grad();
  loss(net->forward(inputs), targets).backward();
  const Tensors found = gradients_of(net);
  net->zero_grad();
  return found;
}

template <class Net>
Tensors our_gradients(Net& net, const Batch& batch, const Criterion& criterion, std::int64_t micro_batch,
                      double* loss = nullptr) {
  Heard heard;
  InfinityBatch ib(heard.options(micro_batch));
  ib.set_model(net);
  ib.set_criterion(criterion);
  const auto result = ib.backward(batch);
  if (loss) *loss = result.loss;
  EXPECT_THAT(heard.texts, IsEmpty());
  const Tensors found = gradients_of(net);
  net->zero_grad();
  return found;
}

class EachMicroBatch : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(, EachMicroBatch, testing::Values(1, 7, 16, 49, 50, 64, 0));

TEST_P(EachMicroBatch, GivesTheMeansGradients) {
  auto net = mlp();
  const Examples data = examples(50);
  torch::nn::CrossEntropyLoss criterion;
  double loss = 0;
  const auto ours = our_gradients(net, {data.inputs, data.classes}, criterion, GetParam(), &loss);
  const auto plain = plain_gradients(net, data.inputs, data.classes, criterion);
  EXPECT_LE(distance(ours, plain), 1e-12);
  EXPECT_NEAR(loss, criterion(net->forward(data.inputs), data.classes).item<double>(), 1e-12);
}

TEST_P(EachMicroBatch, GivesTheSumsGradients) {
  auto net = mlp();
  const Examples data = examples(50);
  torch::nn::MSELoss criterion(torch::nn::MSELossOptions().reduction(torch::kSum));
  const auto ours = our_gradients(net, {data.inputs, data.values}, criterion, GetParam());
  EXPECT_LE(distance(ours, plain_gradients(net, data.inputs, data.values, criterion)), 1e-12);
}

/// A mean over classes with weights is divided by the weights of the targets, not by their number.
TEST_P(EachMicroBatch, GivesTheGradientsOfWeightedClassesAndIgnoredTargets) {
  auto net = mlp();
  Examples data = examples(50);
  data.classes.slice(0, 0, 9).fill_(-100);
  torch::nn::CrossEntropyLoss criterion(
      torch::nn::CrossEntropyLossOptions().weight(at::tensor({1.0, 5.0, 0.2, 3.0}, at::kDouble)));
  double loss = 0;
  const auto ours = our_gradients(net, {data.inputs, data.classes}, criterion, GetParam(), &loss);
  EXPECT_LE(distance(ours, plain_gradients(net, data.inputs, data.classes, criterion)), 1e-12);
  EXPECT_NEAR(loss, criterion(net->forward(data.inputs), data.classes).item<double>(), 1e-12);
}

/// InfoNCE of two views: each sample's loss has all other samples in its denominator.
at::Tensor info_nce(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a / a.norm(2, 1, true);
  const at::Tensor right = b / b.norm(2, 1, true);
  return torch::nn::functional::cross_entropy(left.matmul(right.t()) / 0.1, at::arange(a.size(0), at::kLong));
}

TEST_P(EachMicroBatch, GivesTheGradientsOfAContrastiveLoss) {
  auto left = mlp(at::kDouble, 0, 1);
  auto right = mlp(at::kDouble, 0, 2);
  const at::Tensor x = examples(50).inputs;
  const at::Tensor y = examples(50, at::kDouble, 3).inputs;
  info_nce(left->forward(x), right->forward(y)).backward();
  Tensors plain = gradients_of(left);
  for (const at::Tensor& gradient : gradients_of(right)) plain.push_back(gradient);
  left->zero_grad();
  right->zero_grad();

  const Model both({Model(left), Model(right)},
                   [left, right](const at::Tensor& a, const at::Tensor& b) mutable {
                     return std::pair(left->forward(a), right->forward(b));
                   });
  Heard heard;
  InfinityBatch ib(heard.options(GetParam()));
  ib.set_model(both);
  ib.set_criterion({&info_nce, Reduction::coupled});
  const auto result = ib.backward(Batch(Tensors{x, y}));
  Tensors ours = gradients_of(left);
  for (const at::Tensor& gradient : gradients_of(right)) ours.push_back(gradient);
  EXPECT_LE(distance(ours, plain), 1e-12);
  EXPECT_NEAR(result.loss, info_nce(left->forward(x), right->forward(y)).item<double>(), 1e-12);
}

TEST_P(EachMicroBatch, GivesTheGradientsOfALossOfOnesOwn) {
  auto net = mlp();
  at::Tensor inputs = examples(50).inputs.requires_grad_();
  const auto loss = [](const at::Tensor& outputs) { return (outputs.logsumexp(0) * outputs.std(0)).sum(); };
  loss(net->forward(inputs)).backward();
  Tensors plain = gradients_of(net);
  plain.push_back(inputs.grad().clone());
  net->zero_grad();
  inputs.mutable_grad() = at::Tensor();

  Heard heard;
  InfinityBatch ib(heard.options(GetParam()));
  ib.set_model(net);
  loss(ib.batch(inputs)).backward();
  Tensors ours = gradients_of(net);
  ours.push_back(inputs.grad().clone());
  EXPECT_LE(distance(ours, plain), 1e-12);
}

/// With dropout, the second pass must draw what the first one drew: in the output of the first pass, an input
/// of ones shows the mask, and so does its gradient.
TEST_P(EachMicroBatch, DrawsTheSameInBothPasses) {
  torch::nn::Sequential net(torch::nn::Dropout(0.5));
  const Model model(std::vector<at::Tensor>{at::ones({1}, at::kDouble).requires_grad_()},
                    [net](const at::Tensor& in) mutable { return net->forward(in); });
  at::Tensor inputs = at::ones({40, 30}, at::kDouble).requires_grad_();
  Heard heard;
  InfinityBatch ib(heard.options(GetParam()));
  ib.set_model(model);
  torch::manual_seed(5);
  const at::Tensor outputs = ib.batch(inputs);
  at::rand({7});  // somebody draws in between
  outputs.sum().backward();
  EXPECT_TRUE(inputs.grad().equal(outputs.detach()));
  EXPECT_NEAR(outputs.mean().item<double>(), 1, 0.1);
}

TEST(Gradients, InFloat32AreNoFurtherFromFloat64ThanTwiceThePlainBatchs) {
  const Examples data = examples(1000);
  torch::nn::CrossEntropyLoss criterion;
  auto exact_net = mlp();
  const auto exact = plain_gradients(exact_net, data.inputs, data.classes, criterion);
  auto net = mlp();
  net->to(at::kFloat);
  const at::Tensor inputs = data.inputs.to(at::kFloat);
  const auto plain = plain_gradients(net, inputs, data.classes, criterion);
  for (const std::int64_t size : {1, 10, 64, 333}) {
    const auto ours = our_gradients(net, {inputs, data.classes}, criterion, size);
    EXPECT_LE(distance(ours, exact), 2 * distance(plain, exact)) << size;
  }
}

/// Dividing by the number of micro-batches, as is often done by hand, is wrong where the last one is smaller:
/// the comparison above can fail.
TEST(Gradients, WeightedByMicroBatchesAreNotTheBatchs) {
  auto net = mlp();
  const Examples data = examples(50);
  torch::nn::CrossEntropyLoss criterion;
  const auto plain = plain_gradients(net, data.inputs, data.classes, criterion);
  for (std::int64_t first = 0; first < 50; first += 49) {
    const std::int64_t count = std::min<std::int64_t>(49, 50 - first);
    (criterion(net->forward(data.inputs.narrow(0, first, count)), data.classes.narrow(0, first, count)) / 2)
        .backward();
  }
  EXPECT_GT(distance(gradients_of(net), plain), 1e-3);
}

TEST(Gradients, ArePutBesideThoseThatAreThereAndSparseOnesStaySparse) {
  torch::manual_seed(1);
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(20, 3).sparse(true));
  const at::Tensor words = at::randint(0, 20, {30, 2}, at::kLong);
  const Criterion criterion([](const at::Tensor& out) { return out.square().sum(); }, Reduction::sum);
  table->forward(words).square().sum().backward();
  const at::Tensor plain = table->weight.grad().to_dense();
  table->weight.mutable_grad() = at::Tensor();
  InfinityBatch ib(quiet(7));
  ib.set_model(table);
  ib.set_criterion(criterion);
  ib.backward(Batch(Tensors{words}));
  EXPECT_TRUE(table->weight.grad().is_sparse());
  ib.backward(Batch(Tensors{words}));
  EXPECT_TRUE(at::allclose(table->weight.grad().to_dense(), 2 * plain));
}

TEST(Gradients, OfFrozenAndTiedParameters) {
  torch::manual_seed(1);
  torch::nn::Linear one(6, 6);
  torch::nn::Linear two(6, 6);
  two->weight = one->weight;  // tied
  two->bias.requires_grad_(false);
  const Model model(std::vector<Model>{one, two},
                    [one, two](const at::Tensor& in) mutable { return two(one(in)); });
  const at::Tensor inputs = at::randn({20, 6});
  two(one(inputs)).square().mean().backward();
  const at::Tensor plain = one->weight.grad().clone();
  one->zero_grad();
  one->weight.mutable_grad() = at::Tensor();
  InfinityBatch ib(quiet(6));
  ib.set_model(model);
  ib.set_criterion([](const at::Tensor& out) { return out.square().mean(); });
  ib.backward(Batch(Tensors{inputs}));
  EXPECT_TRUE(at::allclose(one->weight.grad(), plain));
  EXPECT_FALSE(two->bias.grad().defined());
}

TEST(ABatchThatFails, LeavesGradientsAsTheyWere) {
  auto net = mlp();
  const Examples data = examples(40);
  int calls = 0;
  const Model model(net->parameters(), [&](const at::Tensor& in) {
    if (++calls == 3) throw std::runtime_error("the third micro-batch");
    return net->forward(in);
  });
  InfinityBatch ib(quiet(8));
  ib.set_model(model);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  EXPECT_THROW(ib.backward({data.inputs, data.classes}), std::runtime_error);
  for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

// ---- the three ways of use ----

/// What plain LibTorch makes of the same data.
template <class Net>
Tensors plainly_trained(Net net, const std::vector<Batch>& batches, int epochs) {
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  torch::nn::CrossEntropyLoss criterion;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const Batch& batch : batches) {
      const auto samples = batch.samples(0, batch.size());
      optimizer.zero_grad();
      criterion(net->forward(samples.inputs[0]), samples.targets[0]).backward();
      optimizer.step();
    }
  return parameters_of(net);
}

std::vector<Batch> three_batches() {
  std::vector<Batch> batches;
  for (const std::uint64_t seed : {11U, 12U, 13U}) {
    const Examples data = examples(30 + static_cast<std::int64_t>(seed), at::kDouble, seed);
    batches.emplace_back(data.inputs, data.classes);
  }
  return batches;
}

TEST(Use, SimpleByEpochAndCustomAllTrainAsPlainLibTorchDoes) {
  const auto batches = three_batches();
  const Tensors plain = plainly_trained(mlp(), batches, 4);
  for (const int way : {0, 1, 2}) {
    auto net = mlp();
    torch::optim::Adam optimizer(net->parameters(), 0.01);
    torch::nn::CrossEntropyLoss criterion;
    Heard heard;
    InfinityBatch ib(net, optimizer, criterion, Data(batches), heard.options(8));
    if (way == 0) ib(4);
    for (int epoch = 0; way == 1 && epoch < 4; ++epoch) ib.epoch();
    for (int epoch = 0; way == 2 && epoch < 4; ++epoch) {
      for (const Batch& batch : batches) {
        const auto samples = batch.samples(0, batch.size());
        const at::Tensor outputs = ib.batch(samples.inputs[0]);
        at::Tensor loss = criterion(outputs, samples.targets[0]);
        loss.backward();
        ib.step();
        ib.zero_grad();
      }
    }
    EXPECT_LE(distance(parameters_of(net), plain), 1e-12) << "way " << way;
    EXPECT_THAT(heard.texts, IsEmpty()) << "way " << way;
    EXPECT_EQ(ib.place().step, 12);
  }
}

/// Writes down who is called.
struct Recorder : infinity::Listener {
  std::string calls;
  std::int64_t stop_after = 1000;
  std::int64_t steps = 0;
  void train_begins(const infinity::Place&) override { calls += "T"; }
  void epoch_begins(const infinity::Place&) override { calls += "E"; }
  void batch_begins(const infinity::Place&, const Batch&) override { calls += "b"; }
  void micro_batch(const infinity::Place&, const infinity::MicroBatches::Progress&) override { calls += "m"; }
  void batch_ends(const infinity::BatchRecord& record) override {
    calls += "B";
    EXPECT_EQ(record.result->samples, record.batch->size());
  }
  void stepped(const infinity::Place&) override {
    calls += "s";
    ++steps;
  }
  void epoch_ends(const infinity::EpochRecord&) override { calls += "e"; }
  void train_ends(const infinity::Place&) override { calls += "t"; }
  bool stop() override { return steps >= stop_after; }
};

TEST(Use, TellsListenersInOrderAndStopsWhereOneSays) {
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(three_batches()), quiet(22));
  const auto recorder = std::make_shared<Recorder>();
  ib.listen(recorder);
  ib(2);
  EXPECT_EQ(recorder->calls, "TEbmmBsbmmBsbmmBseEbmmBsbmmBsbmmBset");
  recorder->calls.clear();
  recorder->steps = 0;
  recorder->stop_after = 2;
  ib(9);
  EXPECT_EQ(recorder->calls, "TEbmmBsbmmBset");
}

TEST(Use, SetsOnceAndNamesWhatIsMissing) {
  Heard heard;
  InfinityBatch ib(heard.options(8));
  EXPECT_THAT([&] { ib.epoch(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("no model yet")));
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  ib.set_model(net);
  EXPECT_THAT([&] { ib.epoch(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("no optimizer yet")));
  ib.set_optimizer(optimizer);
  EXPECT_THAT([&] { ib.epoch(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("no criterion yet")));
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  EXPECT_THAT([&] { ib.epoch(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("no data yet")));
  ib.set_data(Data(std::vector<Batch>{}));
  EXPECT_THAT([&] { ib.epoch(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("no batch")));
  ib.set_data(Data(three_batches()));
  auto other = mlp(at::kDouble, 0, 9);
  ib.set_model(other);
  ib.set_optimizer(optimizer);
  ib.set_criterion(torch::nn::MSELoss());
  EXPECT_THAT(heard.warnings, ElementsAre(Warning::set_twice, Warning::set_twice, Warning::set_twice));
  const Tensors before = parameters_of(other);
  ib.epoch();
  EXPECT_TRUE(bitwise_equal(parameters_of(other), before));  // the first one is trained
}

TEST(Use, RefusesWhatCannotBeTrainedWith) {
  auto net = mlp();
  const Examples data = examples(10);
  InfinityBatch ib(quiet(5));
  ib.set_model(Model(net->parameters(), [&](const at::Tensor& in) { return net->forward(in).mean(0); }));
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  EXPECT_THAT(
      [&] {
        ib.backward({data.inputs, data.classes});
      },
      testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("first dimension must be the samples")));
  EXPECT_THAT([&] { Batch(data.inputs, data.classes.slice(0, 0, 9)); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("a batch of 10 samples")));
  EXPECT_THAT(
      [&] {
        ib.backward({data.inputs.slice(0, 0, 0), data.classes.slice(0, 0, 0)});
      },
      testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("no samples")));
  torch::nn::CrossEntropyLoss each(torch::nn::CrossEntropyLossOptions().reduction(torch::kNone));
  InfinityBatch of_each(quiet(4));
  EXPECT_THAT([&] { of_each.set_criterion(each); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("kNone")));
}

TEST(Several, ModelsCriteriaAndOptimizersDoAsTheLoopByHand) {
  const Examples data = examples(40);
  const auto train = [&](bool by_hand) {
    auto encoder = mlp(at::kDouble, 0, 1);
    torch::manual_seed(4);
    torch::nn::Linear head(4, 4);
    head->to(at::kDouble);
    torch::optim::Adam first(encoder->parameters(), 0.01);
    torch::optim::SGD second(head->parameters(), 0.1);
    torch::nn::CrossEntropyLoss classes;
    const auto size = [](const at::Tensor& out, const at::Tensor&) { return out.square().mean(); };
    if (by_hand) {
      for (int step = 0; step < 5; ++step) {
        first.zero_grad();
        second.zero_grad();
        const at::Tensor out = head(encoder->forward(data.inputs));
        (classes(out, data.classes) + 0.1 * size(out, data.classes)).backward();
        first.step();
        second.step();
      }
    } else {
      InfinityBatch ib(Model::chain({encoder, head}), std::vector<Optimizer>{first, second},
                       Criterion::weighted({{"classes", classes}, {"size", size}}, {1.0, 0.1}),
                       Data(std::vector<Batch>{{data.inputs, data.classes}}), quiet(9));
      const auto record = ib.train(5);
      EXPECT_EQ(record.of_parts.size(), 2U);
      EXPECT_NEAR(record.of_parts.at(0) + 0.1 * record.of_parts.at(1), record.loss, 1e-12);
    }
    Tensors all = parameters_of(encoder);
    for (const at::Tensor& parameter : parameters_of(head)) all.push_back(parameter);
    return all;
  };
  EXPECT_LE(distance(train(false), train(true)), 1e-12);
}

TEST(Eval, TakesNoGradientPutsTheModeBackAndWeighsBySamples) {
  auto net = mlp(at::kDouble, 0.5);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto batches = three_batches();
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(batches), quiet(10));
  const auto accuracy = [](const Tensors& outputs, const Tensors& targets) {
    return outputs[0].argmax(1).eq(targets[0]).to(at::kDouble).mean().item<double>();
  };
  const auto found = ib.eval(Data(batches), {{"accuracy", accuracy}});
  EXPECT_TRUE(net->is_training());
  for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());

  net->eval();  // by hand, over all samples at once
  Tensors inputs;
  Tensors classes;
  for (const Batch& batch : batches) {
    inputs.push_back(batch.samples(0, batch.size()).inputs[0]);
    classes.push_back(batch.samples(0, batch.size()).targets[0]);
  }
  const at::Tensor outputs = net->forward(at::cat(inputs));
  EXPECT_NEAR(found.loss, torch::nn::functional::cross_entropy(outputs, at::cat(classes)).item<double>(),
              1e-12);
  EXPECT_NEAR(found.metrics.at("accuracy"), accuracy({outputs}, {at::cat(classes)}), 1e-12);
  EXPECT_EQ(found.samples, outputs.size(0));
}

TEST(Monitor, SeesWhatACustomLoopLeavesOut) {
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const Examples data = examples(20);
  torch::nn::CrossEntropyLoss criterion;
  const auto heard_in = [&](auto loop) {
    net->zero_grad();
    Heard heard;
    InfinityBatch ib(heard.options(8));
    ib.set_model(net);
    ib.set_optimizer(optimizer);
    for (int round = 0; round < 2; ++round)
      loop(ib, [&] { criterion(ib.batch(data.inputs), data.classes).backward(); });
    return heard.warnings;
  };
  EXPECT_THAT(heard_in([](auto& ib, auto backward) { backward(), ib.step(), ib.zero_grad(); }), IsEmpty());
  EXPECT_THAT(heard_in([](auto& ib, auto backward) { backward(), ib.step(); }),
              ElementsAre(Warning::missing_zero_grad));
  EXPECT_THAT(heard_in([](auto& ib, auto backward) { backward(), ib.zero_grad(); }),
              ElementsAre(Warning::missing_step, Warning::missing_step));
  EXPECT_THAT(heard_in([](auto&, auto backward) { backward(); }), ElementsAre(Warning::missing_step));
  EXPECT_THAT(heard_in([&](auto& ib, auto) { ib.batch(data.inputs), ib.step(), ib.zero_grad(); }),
              ElementsAre(Warning::missing_backward, Warning::missing_backward));
  EXPECT_THAT(heard_in([](auto& ib, auto backward) { backward(), ib.step(), ib.step(), ib.zero_grad(); }),
              ElementsAre(Warning::missing_backward, Warning::missing_backward));
}

TEST(Monitor, SeesModelOptimizerAndCriterionChange) {
  const Examples data = examples(20);
  const auto heard_after = [&](auto change) {
    auto net = mlp();
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    torch::nn::CrossEntropyLoss criterion;
    Heard heard;
    InfinityBatch ib(net, optimizer, criterion, Data(std::vector<Batch>{{data.inputs, data.classes}}),
                     heard.options(8));
    ib.epoch();
    EXPECT_THAT(heard.texts, IsEmpty());
    change(net, optimizer, criterion);
    ib.epoch();
    return heard.warnings;
  };
  EXPECT_THAT(heard_after([](auto&, auto&, auto&) {}), IsEmpty());
  EXPECT_THAT(heard_after([](auto& net, auto&, auto&) { net->parameters()[0].requires_grad_(false); }),
              ElementsAre(Warning::model_changed));
  EXPECT_THAT(heard_after([](auto& net, auto&, auto&) { net->eval(); }), ElementsAre(Warning::model_changed));
  EXPECT_THAT(heard_after([](auto& net, auto&, auto&) {
                auto* linear = net[3]->template as<torch::nn::Linear>();
                linear->weight = linear->register_parameter("again", linear->weight.detach().clone());
              }),
              testing::Contains(Warning::model_changed));
  EXPECT_THAT(heard_after([](auto&, auto& optimizer, auto&) { optimizer.parameters().pop_back(); }),
              ElementsAre(Warning::optimizer_changed, Warning::optimizer_changed));
  EXPECT_THAT(heard_after([](auto&, auto&, auto& criterion) { criterion->options.reduction(torch::kSum); }),
              ElementsAre(Warning::criterion_changed));
}

TEST(Monitor, SeesThatALossSaidToBeAMeanCouplesSamples) {
  auto net = mlp();
  Heard heard;
  InfinityBatch ib(heard.options(8));
  ib.set_model(net);
  ib.set_criterion([](const at::Tensor& out) { return info_nce(out, out); });
  ib.backward(Batch(Tensors{examples(20).inputs}));
  EXPECT_THAT(heard.warnings, ElementsAre(Warning::coupled_criterion));
}

TEST(WarningPlans, FilterAsTheySay) {
  const auto heard_with = [](infinity::WarningPlan plan) {
    std::string heard;
    infinity::Warnings warnings(plan, [&](Warning, const std::string& text) { heard += text; });
    for (int times = 0; times < 2; ++times) {
      warnings.warn(Warning::missing_step, "m");
      warnings.warn(Warning::smaller, "s");
    }
    EXPECT_EQ(warnings.count(Warning::smaller), 2);
    return heard;
  };
  EXPECT_EQ(heard_with(infinity::WarningPlan::silent()), "");
  EXPECT_EQ(heard_with(infinity::WarningPlan::normal()), "m");
  EXPECT_EQ(heard_with(infinity::WarningPlan::beginner()), "msms");
  EXPECT_EQ(
      heard_with({infinity::WarningAction::once, {{Warning::missing_step, infinity::WarningAction::always}}}),
      "msm");
  EXPECT_THROW(heard_with(infinity::WarningPlan::strict()), infinity::WarningRaised);
}

TEST(Containers, KeepWhatTheyAreToldAndNoMore) {
  const auto kept_with = [](infinity::Keep keep, std::vector<int>* dropped = nullptr) {
    infinity::Container<int> container(keep, dropped ? [dropped](int&& item) { dropped->push_back(item); }
                                                     : infinity::Container<int>::Dropped{});
    for (int epoch = 0; epoch < 3; ++epoch) {
      container.begin_epoch();
      for (int batch = 0; batch < 2; ++batch) container.add(10 * epoch + batch);
    }
    std::vector<std::vector<int>> kept;
    for (const auto& epoch : container.epochs()) kept.emplace_back(epoch.begin(), epoch.end());
    return kept;
  };
  using Kept = std::vector<std::vector<int>>;
  EXPECT_EQ(kept_with(infinity::Keep::everything()), (Kept{{0, 1}, {10, 11}, {20, 21}}));
  EXPECT_EQ(kept_with(infinity::Keep::last_epochs(1)), (Kept{{20, 21}}));
  EXPECT_EQ(kept_with(infinity::Keep::last_batches(3)), (Kept{{11}, {20, 21}}));
  std::vector<int> dropped;
  EXPECT_EQ(kept_with(infinity::Keep::nothing(), &dropped), (Kept{{}}));
  EXPECT_THAT(dropped, ElementsAre(0, 1, 10, 11, 20, 21));
}

TEST(Containers, OfTrainingAreBoundedAndHoldNoGraph) {
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  auto options = quiet(8);
  options.keep = {.outputs = infinity::Keep::last_batches(2), .targets = infinity::Keep::last_epochs(1)};
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(three_batches()), options);
  ib(3);
  EXPECT_EQ(ib.outputs().size(), 2);
  EXPECT_EQ(ib.targets().size(), 3);
  EXPECT_EQ(ib.inputs().size(), 0);
  EXPECT_EQ(ib.losses().size(), 9);
  const at::Tensor last = ib.outputs().epochs().back().back().at(0);
  EXPECT_EQ(last.size(0), 43);
  EXPECT_FALSE(last.requires_grad());
}

TEST(Devices, AreNamedMovedAndChecked) {
  auto net = mlp();
  torch::optim::Adam optimizer(net->parameters(), 0.1);
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(three_batches()), quiet(8));
  EXPECT_EQ(ib.forward_device(), at::kCPU);
  EXPECT_EQ(ib.backward_device(), at::kCPU);
  ib.epoch();
  ib.check_devices();
  const at::Tensor handle = net->parameters().front();
  ib.change_model_device(at::kCPU);
  EXPECT_TRUE(handle.is_same(net->parameters().front()));  // optimizers keep their parameters
  EXPECT_NO_THROW(ib.epoch());

  InfinityBatch apart(quiet(8));  // meta: a device that needs no hardware
  apart.set_model(Model(std::vector<at::Tensor>{at::ones({2}).requires_grad_(), at::ones({2}, at::kMeta)},
                        [](const at::Tensor& in) { return in; }));
  EXPECT_THAT([&] { apart.check_devices(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("parameter 1 is on meta")));
}

}  // namespace
}  // namespace speedtorch::test
