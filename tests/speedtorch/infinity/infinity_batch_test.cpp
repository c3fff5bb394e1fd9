/// Compares gradients of micro-batches with those of the plain batch, and tests the three ways of use and
/// their errors.
#include "speedtorch/infinity/infinity_batch.h"

#include <gmock/gmock.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/adagrad.h>

#include "speedtorch/infinity/gradient_sum.h"
#include "speedtorch/infinity/step_guard.h"
#include "speedtorch/optim/optimizers.h"
#include "tests/speedtorch/infinity/models.h"

namespace speedtorch::test {
namespace {

using infinity::Warning;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The gradients of the whole batch, computed by LibTorch alone.
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
  torch::nn::CrossEntropyLoss criterion(torch::nn::CrossEntropyLossOptions().weight(
      at::tensor({1.0, 5.0, 0.2, 3.0}, at::kDouble).to(test_device())));
  double loss = 0;
  const auto ours = our_gradients(net, {data.inputs, data.classes}, criterion, GetParam(), &loss);
  EXPECT_LE(distance(ours, plain_gradients(net, data.inputs, data.classes, criterion)), 1e-12);
  EXPECT_NEAR(loss, criterion(net->forward(data.inputs), data.classes).item<double>(), 1e-12);
}

/// InfoNCE of two views: each sample's loss has all other samples in its denominator.
at::Tensor info_nce(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a / a.norm(2, 1, true);
  const at::Tensor right = b / b.norm(2, 1, true);
  return torch::nn::functional::cross_entropy(left.matmul(right.t()) / 0.1,
                                              at::arange(a.size(0), a.options().dtype(at::kLong)));
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

/// The second pass must repeat the first pass's dropout. For an input of ones, the outputs of the first pass
/// show the mask, and so does the gradient.
TEST_P(EachMicroBatch, DrawsTheSameInBothPasses) {
  torch::nn::Sequential net(torch::nn::Dropout(0.5));
  const auto options = at::TensorOptions(test_device()).dtype(at::kDouble);
  const Model model(std::vector<at::Tensor>{at::ones({1}, options).requires_grad_()},
                    [net](const at::Tensor& in) mutable { return net->forward(in); });
  at::Tensor inputs = at::ones({40, 30}, options).requires_grad_();
  Heard heard;
  InfinityBatch ib(heard.options(GetParam()));
  ib.set_model(model);
  torch::manual_seed(5);
  const at::Tensor outputs = ib.batch(inputs);
  at::rand({7}, options);  // advances the generator in between
  outputs.sum().backward();
  EXPECT_TRUE(inputs.grad().equal(outputs.detach()));
  EXPECT_NEAR(outputs.mean().item<double>(), 1, 0.1);
}

TEST(Gradients, ErrorInFloat32IsAtMostTwiceThePlainBatchs) {
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

/// Negative control: dividing by the number of micro-batches, a common mistake, is wrong if the last one is
/// smaller.
TEST(Gradients, WeightingByMicroBatchesDiffersFromTheBatch) {
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

TEST(Gradients, BackwardAddsToExistingGradientsAndKeepsThemSparse) {
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

/// Unshared views, such as the gradients of a linear layer, are not copied. Shared memory is copied, because
/// adding to one gradient would change the other.
TEST(GradientSums, SumTakesOverUnsharedMemoryAndCopiesSharedMemory) {
  const auto address_after = [](const auto& gradients_of_backward) {
    infinity::GradientSum sum({at::zeros({3, 2}, at::kDouble), at::zeros({3, 2}, at::kDouble)});
    Tensors gradients = gradients_of_backward();
    const std::vector<const void*> given{gradients[0].const_data_ptr(), gradients[1].const_data_ptr()};
    sum.add(std::move(gradients));
    sum.add({at::full({3, 2}, 10, at::kDouble), at::full({3, 2}, 20, at::kDouble)});
    const Tensors sums = sum.take();
    EXPECT_TRUE(sums[0].equal(at::full({3, 2}, 11, at::kDouble)));
    EXPECT_TRUE(sums[1].equal(at::full({3, 2}, 21, at::kDouble)));
    return std::pair(sums[0].const_data_ptr() == given[0], sums[1].const_data_ptr() == given[1]);
  };
  const auto ones = [](at::IntArrayRef sizes) { return at::ones(sizes, at::kDouble); };
  const auto taken = std::pair(true, true);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(address_after([&] { return Tensors{ones({3, 2}), ones({3, 2})}; }), taken);
  EXPECT_EQ(address_after([&] { return Tensors{ones({3, 2}).t().t(), ones({6}).view({3, 2})}; }), taken);
  const auto one_copied = std::pair(false, true);  // the other one is then unshared
  const auto copied = std::pair(false, false);
  EXPECT_EQ(address_after([&] {
              const at::Tensor both = ones({3, 2});
              return Tensors{both, both};
            }),
            one_copied);
  EXPECT_EQ(address_after([&] {
              const at::Tensor base = ones({6});
              return Tensors{base.view({3, 2}), base.view({3, 2})};
            }),
            one_copied);
  EXPECT_EQ(address_after([&] {
              const at::Tensor base = ones({3, 2});
              return Tensors{base, base.view({3, 2})};
            }),
            one_copied);
  EXPECT_EQ(address_after([&] {
              const at::Tensor base = ones({12});
              return Tensors{base.narrow(0, 0, 6).view({3, 2}), base.detach().narrow(0, 6, 6).view({3, 2})};
            }),
            copied);
  EXPECT_EQ(address_after([&] {
              return Tensors{ones({12}).narrow(0, 0, 6).view({3, 2}), ones({}).expand({3, 2})};
            }),
            copied);  // storages that are larger and smaller than the gradient
}

/// Adding to a tensor that is only marked as conjugated allocates, in a loop that must not fail.
TEST(GradientSums, SumResolvesConjugationAndNegation) {
  const auto number = [](double real, double imaginary) {
    return at::full({2}, c10::complex<double>(real, imaginary), at::kComplexDouble);
  };
  infinity::GradientSum sum({number(0, 0), at::zeros({2}, at::kDouble)});
  const auto negated = [&] { return at::imag(number(1, 7).conj()); };
  ASSERT_TRUE(number(1, 7).conj().is_conj());
  ASSERT_TRUE(negated().is_neg());
  sum.add({number(1, 7).conj(), negated()});
  sum.add({number(2, 1).conj(), negated()});
  const Tensors sums = sum.take();
  EXPECT_FALSE(sums[0].is_conj());
  EXPECT_FALSE(sums[1].is_neg());
  EXPECT_TRUE(sums[0].equal(number(3, -8)));
  EXPECT_TRUE(sums[1].equal(at::full({2}, -14, at::kDouble)));
}

/// Each case decides whether a step needs a copy for its rollback.
TEST(Optimizers, OnlyPlainSgdOnMatchingGradientsAllocatesNothing) {
  using torch::optim::SGD;
  using torch::optim::SGDOptions;
  const auto parameter = [](const at::Tensor& gradient) {
    at::Tensor tensor = at::zeros({3, 2}).requires_grad_();
    if (gradient.defined()) tensor.mutable_grad() = gradient;
    return tensor;
  };
  const auto safe = [](torch::optim::Optimizer&& stock) {
    return infinity::Optimizer(stock).allocates_nothing();
  };
  const auto good = [&] { return Tensors{parameter(at::ones({3, 2})), parameter({})}; };
  EXPECT_TRUE(safe(SGD(good(), SGDOptions(0.1))));
  EXPECT_TRUE(safe(SGD({parameter(at::ones({2, 3}).t())}, SGDOptions(0.1))));  // of other strides
  EXPECT_FALSE(safe(SGD(good(), SGDOptions(0.1).momentum(0.9))));
  EXPECT_FALSE(safe(SGD(good(), SGDOptions(0.1).weight_decay(0.1))));
  EXPECT_FALSE(safe(torch::optim::Adagrad(good())));
  struct Derived : SGD {
    using SGD::SGD;
  };
  EXPECT_FALSE(safe(Derived(good(), SGDOptions(0.1))));
  EXPECT_FALSE(safe(SGD({parameter(at::ones({3, 2}).to_sparse())}, SGDOptions(0.1))));
  std::vector<torch::optim::OptimizerParamGroup> groups{torch::optim::OptimizerParamGroup(good()),
                                                        torch::optim::OptimizerParamGroup(good())};
  EXPECT_TRUE(safe(SGD(groups, SGDOptions(0.1))));
  groups[1].set_options(std::make_unique<SGDOptions>(SGDOptions(0.1).momentum(0.9)));
  EXPECT_FALSE(safe(SGD(groups, SGDOptions(0.1))));
  at::Tensor with_gaps = at::zeros({3, 4}).slice(1, 0, 2).requires_grad_();
  with_gaps.mutable_grad() = at::ones({3, 2});
  EXPECT_FALSE(safe(SGD({with_gaps}, SGDOptions(0.1))));
  at::Tensor complex = at::zeros({3}, at::kComplexFloat).requires_grad_();
  complex.mutable_grad() = at::ones({3}, at::kComplexFloat);
  EXPECT_FALSE(safe(SGD({complex}, SGDOptions(0.1))));
}

TEST(Gradients, FrozenAndTiedParametersGetThePlainGradients) {
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

/// A failed batch changes neither running statistics nor the generator, so a retry gives the same result.
TEST(ABatchThatFails, LeavesBuffersAndGeneratorsAsTheyWere) {
  const Examples data = examples(40);
  const auto made_with = [&](bool fails) {
    torch::manual_seed(1);
    torch::nn::Sequential net(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Dropout(0.5),
                              torch::nn::Linear(8, 4));
    net->to(test_device(), at::kDouble);
    bool failing = fails;
    int calls = 0;
    const Model model(
        net->parameters(),
        [&](const at::Tensor& in) {
          if (failing && ++calls == 3) throw std::runtime_error("the third micro-batch");
          return net->forward(in);
        },
        net->buffers());
    auto options = quiet(8);
    options.batch_norm = infinity::BatchNorm::per_micro_batch;
    InfinityBatch ib(options);
    ib.set_model(model);
    ib.set_criterion(torch::nn::CrossEntropyLoss());
    torch::manual_seed(5);
    if (fails) {
      EXPECT_THROW(ib.backward({data.inputs, data.classes}), std::runtime_error);
    }
    failing = false;
    ib.backward({data.inputs, data.classes});
    Tensors made = gradients_of(net);
    for (const at::Tensor& buffer : net->buffers()) made.push_back(buffer);
    return made;
  };
  EXPECT_TRUE(bitwise_equal(made_with(true), made_with(false)));
}

/// A step of a custom optimizer fails halfway, with states restored in place and by set_state().
TEST(ABatchThatFails, TakesBackTheStatesOfACustomOptimizer) {
  for (const bool has_setter : {false, true}) {
    const at::Tensor weight = at::ones({3}).requires_grad_();
    weight.mutable_grad() = at::ones({3});
    at::Tensor momentum = at::full({3}, 2.0);
    infinity::Optimizer::Own own;
    own.parameters = [&] { return Tensors{weight}; };
    own.state = [&] { return Tensors{momentum}; };
    own.zero_grad = [] {};
    if (has_setter) own.set_state = [&](const Tensors& values) { momentum = values[0].clone(); };
    own.step = [&] {
      const at::NoGradGuard no_grad;
      weight.sub_(momentum.mul_(0.5));
      throw std::runtime_error("halfway");
    };
    infinity::StepGuard guard;
    EXPECT_THROW(guard.step({infinity::Optimizer(own)}), std::runtime_error);
    EXPECT_TRUE(at::equal(weight.detach(), at::ones({3}))) << has_setter;
    EXPECT_TRUE(at::equal(momentum, at::full({3}, 2.0))) << has_setter;
  }
}

/// The forward pass reads and changes a buffer. The second pass must see the values of the first.
TEST(ABufferThatTheForwardChanges, IsTheSameInBothPasses) {
  const at::Tensor weight = at::ones({1}, at::kDouble).requires_grad_();
  at::Tensor count = at::zeros({1}, at::kDouble);
  const Model model(
      std::vector<at::Tensor>{weight},
      [weight, count](const at::Tensor& in) mutable { return in * weight * count.add_(1).clone(); }, {count});
  InfinityBatch ib(quiet(4));
  ib.set_model(model);
  const at::Tensor outputs =
      ib.batch(at::ones({8, 1}, at::kDouble));  // the first micro-batch counts 1, the second 2
  outputs.sum().backward();
  EXPECT_EQ(weight.grad().item<double>(), 4 * 1 + 4 * 2);
  EXPECT_EQ(count.item<double>(), 2);
}

/// The second pass runs the model again. After a change of what it reads, its gradients would not be those of
/// the outputs.
TEST(OutputsOfABatch, RefuseTheBackwardPassAfterAChange) {
  const auto refusal_after = [](auto change) {
    const at::Tensor inputs = examples(20).inputs;
    auto net = mlp();
    net->eval();
    net->register_buffer("scale", at::ones({1}));
    InfinityBatch ib(quiet(8));
    ib.set_model(net);
    const at::Tensor outputs = ib.batch(inputs);
    {
      const at::NoGradGuard no_grad;
      change(net, inputs);
    }
    try {
      outputs.sum().backward();
    } catch (const infinity::InfinityBatchError& error) {
      EXPECT_FALSE(net->parameters()[0].grad().defined());
      return std::string(error.what());
    }
    EXPECT_TRUE(net->parameters()[0].grad().defined());
    return std::string("none");
  };
  EXPECT_EQ(refusal_after([](auto&, const at::Tensor&) {}), "none");
  EXPECT_THAT(refusal_after([](auto&, const at::Tensor& inputs) { inputs.zero_(); }),
              HasSubstr("input 0 was changed in batch() or after it"));
  EXPECT_THAT(refusal_after([](auto& net, const at::Tensor&) { net->parameters()[3].add_(1); }),
              HasSubstr("parameter 3.bias was changed"));
  EXPECT_THAT(refusal_after([](auto& net, const at::Tensor&) {
                at::Tensor weight = net->parameters()[0];
                weight.set_data(weight.clone());
              }),
              HasSubstr("parameter 0.weight was changed"));
  EXPECT_THAT(refusal_after([](auto& net, const at::Tensor&) { net->buffers()[0].add_(1); }),
              HasSubstr("buffer scale was changed"));
}

TEST(OutputsOfABatch, RefuseAParameterThatMovedWithinItsStorage) {
  auto net = mlp();
  net->eval();
  at::Tensor weight = net->parameters()[0];
  const auto size = weight.numel();
  const at::Tensor both = at::cat({weight.detach().flatten(), at::ones({size}, weight.options())});
  weight.set_data(both.narrow(0, 0, size).view(weight.sizes()));
  InfinityBatch ib(quiet(8));
  ib.set_model(net);
  const at::Tensor outputs = ib.batch(examples(20).inputs);
  weight.set_data(both.narrow(0, size, size).view(weight.sizes()));
  EXPECT_THROW(outputs.sum().backward(), infinity::InfinityBatchError);
}

/// The second pass of later outputs sets the buffers back. Those that did not change stay as they were for
/// the earlier outputs, too.
TEST(OutputsOfABatch, DoNotChangeBuffersForEarlierOnes) {
  auto net = mlp();
  const at::Tensor scale = net->register_buffer("scale", at::ones({1}).variable_data());
  const auto version = scale._version();
  EXPECT_EQ(version, 0U);
  InfinityBatch ib(quiet(8));
  ib.set_model(net);
  net->eval();
  const at::Tensor first = ib.batch(examples(20).inputs);
  net->train();
  ib.batch(examples(20).inputs).sum().backward();
  EXPECT_EQ(scale._version(), version);
  net->eval();
  EXPECT_NO_THROW(first.sum().backward());
}

TEST(OutputsOfABatch, HaveTheirBackwardPassInTheirModes) {
  const Examples data = examples(20);
  const auto gradients = [&](bool evaluate_in_between) {
    auto net = mlp(at::kDouble, 0.5);
    InfinityBatch ib(quiet(8));
    ib.set_model(net);
    torch::manual_seed(3);
    const at::Tensor outputs = ib.batch(data.inputs);
    if (evaluate_in_between) net->eval();
    outputs.sum().backward();
    for (const auto& module : net->modules()) EXPECT_EQ(module->is_training(), !evaluate_in_between);
    return gradients_of(net);
  };
  EXPECT_TRUE(bitwise_equal(gradients(true), gradients(false)));
}

/// Outputs of two batches may wait for their gradients at the same time, and one of them may be asked twice.
TEST(OutputsOfABatch, MayWaitTogether) {
  const at::Tensor a = examples(20, at::kDouble, 5).inputs;
  const at::Tensor b = examples(12, at::kDouble, 6).inputs;
  auto net = mlp();
  InfinityBatch ib(quiet(8));
  ib.set_model(net);
  const at::Tensor of_a = ib.batch(a);
  const at::Tensor of_b = ib.batch(b);
  of_b.square().sum().backward({}, /*retain_graph=*/true);
  of_a.sum().backward();
  of_b.square().sum().backward();
  const Tensors ours = gradients_of(net);
  net->zero_grad();
  (net->forward(a).sum() + 2 * net->forward(b).square().sum()).backward();
  EXPECT_LE(distance(ours, gradients_of(net)), 1e-12);
}

TEST(Gradients, UnusedInputGetsZeroGradient) {
  auto net = mlp();
  at::Tensor used = examples(20).inputs.requires_grad_();
  at::Tensor unused = examples(20).inputs.requires_grad_();
  InfinityBatch ib(quiet(8));
  ib.set_model(Model(net->parameters(),
                     [net](const at::Tensor& a, const at::Tensor&) mutable { return net->forward(a); }));
  ib.batch(Tensors{used, unused})[0].sum().backward();
  EXPECT_GT(used.grad().abs().sum().item<double>(), 0);
  EXPECT_EQ(unused.grad().abs().sum().item<double>(), 0);
}

/// In a micro-batch of one sample, the losses are a vector of one element.
TEST(Criteria, LossPerSampleIsRefusedForAnyMicroBatch) {
  for (const std::int64_t micro_batch : {1, 3}) {
    auto net = mlp();
    const Examples data = examples(7);
    InfinityBatch ib(quiet(micro_batch));
    ib.set_model(net);
    ib.set_criterion(Criterion([](const at::Tensor& outputs,
                                  const at::Tensor& values) { return (outputs - values).square().mean(1); },
                               Reduction::mean));
    EXPECT_THAT(
        [&] {
          ib.backward({data.inputs, data.values});
        },
        testing::ThrowsMessage<infinity::InfinityBatchError>(testing::AllOf(
            HasSubstr("shape [" + std::to_string(micro_batch) + "]"), HasSubstr("mean() or sum()"))));
    for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST(Criteria, CriterionTakesThreeTensorsAndMayChangeItsReduction) {
  const Examples data = examples(30);
  auto left = mlp(at::kDouble, 0, 1);
  auto right = mlp(at::kDouble, 0, 2);
  const at::Tensor sides = (at::randint(0, 2, {30}, at::kDouble) * 2 - 1).to(test_device());
  torch::nn::CosineEmbeddingLoss cosine;
  const Model both({Model(left), Model(right)}, [=](const at::Tensor& in) mutable {
    return std::pair(left->forward(in), right->forward(in));
  });
  InfinityBatch ib(quiet(7));
  ib.set_model(both);
  ib.set_criterion(cosine);
  EXPECT_NEAR(ib.backward({data.inputs, sides}).loss,
              cosine(left->forward(data.inputs), right->forward(data.inputs), sides).item<double>(), 1e-12);

  // Constructed with a sum, then changed to a mean, which excludes ignored targets.
  torch::nn::CrossEntropyLoss classes(torch::nn::CrossEntropyLossOptions().reduction(torch::kSum));
  InfinityBatch changed(quiet(7));
  changed.set_model(left);
  changed.set_criterion(classes);
  classes->options.reduction(torch::kMean);
  at::Tensor some = data.classes.clone();
  some.slice(0, 0, 11).fill_(-100);
  EXPECT_NEAR(changed.backward({data.inputs, some}).loss,
              classes(left->forward(data.inputs), some).item<double>(), 1e-12);
}

// ---- the three ways of use ----

/// The parameters after training with plain LibTorch.
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

TEST(Use, AllThreeWaysTrainAsPlainLibTorch) {
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

/// A listener throws in the second batch, before or after its step; then epoch() is called again.
TEST(Use, InterruptedEpochResumesBitForBit) {
  struct Thrower : infinity::Listener {
    explicit Thrower(int where) : at(where) {}
    void now(int where) {
      if (where == at && ++times == 2) throw std::runtime_error("enough");
    }
    void batch_begins(const infinity::Place&, const Batch&) override { now(1); }
    void micro_batch(const infinity::Place&, const infinity::MicroBatchProgress&) override { now(2); }
    void batch_ends(const infinity::BatchRecord&) override { now(3); }
    void stepped(const infinity::Place&) override { now(4); }
    int at;
    int times = 0;
  };
  const auto trained = [](int where) {
    auto net = mlp(at::kDouble, 0.4);
    torch::optim::Adam optimizer(net->parameters(), 0.01);
    Heard heard;
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(three_batches()), heard.options(16));
    ib.listen(std::make_shared<Thrower>(where));
    torch::manual_seed(3);
    if (where > 0) {
      EXPECT_THROW(ib.train(1), std::runtime_error);
    }
    EXPECT_EQ(ib.place().epochs, 0);
    for (const at::Tensor& parameter : net->parameters()) EXPECT_FALSE(parameter.grad().defined());
    const auto record = ib.epoch();
    EXPECT_EQ(record.batches, 3);
    EXPECT_EQ(record.place.epoch, 0);
    EXPECT_EQ(ib.place().step, 3);
    EXPECT_EQ(ib.place().epoch, 1);
    EXPECT_THAT(heard.texts, IsEmpty());
    Tensors made = parameters_of(net);
    made.push_back(at::full({1}, record.loss, at::kDouble));
    return made;
  };
  const Tensors undisturbed = trained(0);
  for (const int where : {1, 2, 3, 4}) EXPECT_TRUE(bitwise_equal(trained(where), undisturbed)) << where;
}

/// A step applies all optimizers or none, even if the second one throws.
TEST(Use, StepThatThrowsIsRolledBackForAllOptimizers) {
  auto net = mlp();
  torch::nn::Linear head(4, 4);
  head->to(test_device(), at::kDouble);
  torch::optim::Adam first(net->parameters(), 0.1);
  bool broken = false;
  const Optimizer second({.step =
                              [&] {
                                if (broken) throw std::runtime_error("the second optimizer");
                              },
                          .zero_grad = [&] { head->zero_grad(); },
                          .parameters = [&] { return head->parameters(); },
                          .state = [] { return Tensors{}; }});
  const Examples data = examples(20);
  InfinityBatch ib(Model::chain({net, head}), {first, second}, torch::nn::CrossEntropyLoss(),
                   Data(std::vector<Batch>{{data.inputs, data.classes}}), quiet(8));
  ib.epoch();
  const Tensors before = parameters_of(net);
  broken = true;
  EXPECT_THROW(ib.epoch(), std::runtime_error);
  EXPECT_TRUE(bitwise_equal(parameters_of(net), before));
  broken = false;
  ib.epoch();
  EXPECT_EQ(static_cast<const torch::optim::AdamParamState&>(
                *first.state().at(net->parameters()[0].unsafeGetTensorImpl()))
                .step(),
            2);
}

/// SpeedTorch's example trains with Adadelta, which LibTorch lacks.
TEST(Use, LibraryOptimizersTrainAsTheManualLoop) {
  const auto batches = three_batches();
  const auto compare = [&](auto make) {
    auto by_hand = mlp();
    auto its = make(by_hand->parameters());
    auto net = mlp();
    auto optimizer = make(net->parameters());
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const Batch& batch : batches) {
        const auto samples = batch.samples(0, batch.size());
        its->zero_grad();
        torch::nn::CrossEntropyLoss()(by_hand->forward(samples.inputs[0]), samples.targets[0]).backward();
        its->step();
      }
    InfinityBatch ib(net, *optimizer, torch::nn::CrossEntropyLoss(), Data(batches), quiet(8));
    ib(3);
    EXPECT_LE(distance(parameters_of(net), parameters_of(by_hand)), 1e-11);
  };
  compare([](auto parameters) { return std::make_unique<optim::Adadelta>(parameters); });
  compare([](auto parameters) { return std::make_unique<optim::Adamax>(parameters); });
  compare([](auto parameters) { return std::make_unique<optim::ASGD>(parameters); });
}

/// Records the calls.
struct Recorder : infinity::Listener {
  std::string calls;
  std::int64_t stop_after = 1000;
  std::int64_t steps = 0;
  void train_begins(const infinity::Place&) override { calls += "T"; }
  void epoch_begins(const infinity::Place&) override { calls += "E"; }
  void batch_begins(const infinity::Place&, const Batch&) override { calls += "b"; }
  void micro_batch(const infinity::Place&, const infinity::MicroBatchProgress&) override { calls += "m"; }
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

TEST(Use, ListenersAreCalledInOrderAndMayStop) {
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

TEST(Use, SettersWorkOnceAndErrorsNameWhatIsMissing) {
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
  EXPECT_TRUE(bitwise_equal(parameters_of(other), before));  // the first model is trained instead
}

TEST(Use, UnusableArgumentsAreRefused) {
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

TEST(Use, InvalidNumbersAndListenersAreRefused) {
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(three_batches()), quiet(5));
  const auto refused = [](const char* why) {
    return testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr(why));
  };
  EXPECT_THAT([&] { ib.train(-1); }, refused("train(-1)"));
  EXPECT_THAT([&] { ib.listen(nullptr); }, refused("null pointer"));
  EXPECT_THAT([&] { ib.backward(Batch(3, [](std::int64_t, std::int64_t) { return infinity::Samples{}; })); },
              refused("no inputs"));
  auto options = quiet();
  options.memory_budget = -5;
  InfinityBatch of_less(options);
  EXPECT_THAT([&] { of_less.set_model(net); }, refused("memory_budget is -5 bytes"));
  EXPECT_THAT([&] { of_less.backward({examples(3).inputs, examples(3).classes}); }, refused("no criterion"));
  options = quiet(-2);
  EXPECT_THAT([&] { InfinityBatch(options).set_model(net); },
              refused("micro_batch.fixed is -2; take 0 or more"));
  struct Nested : infinity::Listener {
    explicit Nested(InfinityBatch& training) : ib(training) {}
    void micro_batch(const infinity::Place&, const infinity::MicroBatchProgress&) override {
      ib.eval(Data(three_batches()));
    }
    InfinityBatch& ib;
  };
  ib.listen(std::make_shared<Nested>(ib));
  EXPECT_THAT([&] { ib.epoch(); }, refused("within another batch"));
}

TEST(Several, ModelsCriteriaAndOptimizersTrainAsTheManualLoop) {
  const Examples data = examples(40);
  const auto train = [&](bool by_hand) {
    auto encoder = mlp(at::kDouble, 0, 1);
    torch::manual_seed(4);
    torch::nn::Linear head(4, 4);
    head->to(test_device(), at::kDouble);
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

TEST(Eval, EvalRestoresTheModeAndWeightsBySamples) {
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

  net->eval();  // reference: all samples at once
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

/// Part of a net, or one of several models, may be in evaluation mode while the rest trains.
TEST(Eval, EvalRestoresEachModulesMode) {
  torch::nn::Sequential frozen(torch::nn::Linear(6, 6), torch::nn::BatchNorm1d(6));
  frozen->to(test_device(), at::kDouble);
  frozen[1]->as<torch::nn::BatchNorm1d>()->eval();
  auto net = mlp();
  auto asleep = mlp(at::kDouble, 0, 2);
  asleep->eval();
  const Model all({Model(frozen), Model(net), Model(asleep)}, [=](const at::Tensor& in) mutable {
    return net->forward(frozen->forward(in)) + asleep->forward(in);
  });
  InfinityBatch ib(quiet(10));
  ib.set_model(all);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  ib.eval(Data(three_batches()));
  EXPECT_TRUE(net->is_training());
  EXPECT_TRUE(net[2]->is_training());
  EXPECT_TRUE(frozen->is_training());
  EXPECT_FALSE(frozen[1]->is_training());
  EXPECT_FALSE(asleep->is_training());
  const Batch batch = three_batches().front();
  EXPECT_NO_THROW(ib.backward(batch));  // batch normalisation in training mode would be refused
}

/// A batch larger than memory is never fetched as a whole, even for its targets.
TEST(Eval, MetricsFetchOneMicroBatchAtATime) {
  auto net = mlp();
  const Examples data = examples(100);
  const Batch large(100, [&](std::int64_t first, std::int64_t count) {
    EXPECT_LE(count, 10);
    return infinity::Samples{infinity::rows_of({data.inputs}, first, count),
                             infinity::rows_of({data.classes}, first, count)};
  });
  auto options = quiet(10);
  options.keep.targets = infinity::Keep::everything();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(std::vector<Batch>{large}), options);
  const auto found =
      ib.eval(Data(std::vector<Batch>{large}), {{"ones", [&](const Tensors&, const Tensors& targets) {
                                                   EXPECT_TRUE(targets[0].equal(data.classes));
                                                   return 1.0;
                                                 }}});
  EXPECT_EQ(found.metrics.at("ones"), 1.0);
  ib.epoch();
  EXPECT_TRUE(ib.targets().epochs()[0][0][0].equal(data.classes.cpu()));
}

TEST(Monitor, MonitorDetectsMissingCalls) {
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

TEST(Monitor, MonitorDetectsChangedModelOptimizerAndCriterion) {
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

TEST(Monitor, MonitorReportsAParameterChangeOnce) {
  std::vector<std::string> texts;
  infinity::EventMonitor monitor(std::make_shared<infinity::Warnings>(
      infinity::WarningPlan::beginner(), [&](Warning, const std::string& text) { texts.push_back(text); }));
  at::Tensor weight = at::zeros({2, 3}).requires_grad_();
  const Model model(std::vector<at::Tensor>{weight}, [](const at::Tensor& inputs) { return inputs; });
  const auto look_after = [&](const at::Tensor& data) {
    weight.set_data(data);
    monitor.inspect(model, {}, nullptr);
    monitor.inspect(model, {}, nullptr);
  };
  look_after(at::zeros({2, 3}));
  EXPECT_THAT(texts, IsEmpty());
  look_after(at::zeros({3, 2}));
  EXPECT_THAT(
      texts,
      ElementsAre(HasSubstr("is [3, 2] Float on cpu; in the previous batch it was [2, 3] Float on cpu")));
  look_after(at::zeros({3, 2}, at::kDouble));
  ASSERT_EQ(texts.size(), 2);
  EXPECT_THAT(texts[1],
              HasSubstr("is [3, 2] Double on cpu; in the previous batch it was [3, 2] Float on cpu"));
}

TEST(Monitor, MonitorDetectsACoupledLossDeclaredAsMean) {
  auto net = mlp();
  Heard heard;
  InfinityBatch ib(heard.options(8));
  ib.set_model(net);
  ib.set_criterion([](const at::Tensor& out) { return info_nce(out, out); });
  ib.backward(Batch(Tensors{examples(20).inputs}));
  EXPECT_THAT(heard.warnings, ElementsAre(Warning::coupled_criterion));
}

TEST(WarningPlans, PlansSelectTheAction) {
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

TEST(Containers, ContainersRespectTheirCapacity) {
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

TEST(Containers, TrainingPassesOnDroppedItems) {
  auto net = mlp();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  auto options = quiet(8);
  std::vector<std::int64_t> samples;
  std::int64_t losses = 0;
  options.keep.dropped_outputs = [&](Tensors&& outputs) { samples.push_back(outputs[0].size(0)); };
  options.keep.losses = infinity::Keep::last_batches(2);
  options.keep.dropped_losses = [&](KeptLoss&&) { ++losses; };
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(), Data(three_batches()), options);
  ib.epoch();
  EXPECT_THAT(samples, ElementsAre(41, 42, 43));
  EXPECT_EQ(ib.outputs().size(), 0);
  EXPECT_EQ(losses, 1);
  EXPECT_EQ(infinity::Keep::last_epochs(0).batches, 0);
}

TEST(Containers, TrainingKeepsBoundedHistoryWithoutGraphs) {
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

TEST(Devices, ModelAndStatesMoveAndMismatchesAreNamed) {
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
  // A move to meta shows the attempt without another device: LibTorch cannot move a tensor there and keep it.
  handle.mutable_grad() = at::ones_like(handle);
  EXPECT_THAT([&] { ib.change_model_device(at::kMeta); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(
                  HasSubstr("0.weight cannot move from cpu to meta")));
  EXPECT_TRUE(handle.grad().equal(at::ones_like(handle)));
  EXPECT_NO_THROW(ib.epoch());

  InfinityBatch apart(quiet(8));  // meta: a device that needs no hardware
  apart.set_model(Model(std::vector<at::Tensor>{at::ones({2}).requires_grad_(), at::ones({2}, at::kMeta)},
                        [](const at::Tensor& in) { return in; }));
  EXPECT_THAT([&] { apart.check_devices(); },
              testing::ThrowsMessage<infinity::InfinityBatchError>(HasSubstr("parameter 1 is on meta")));

  Heard heard;
  InfinityBatch weighted(heard.options(8));
  weighted.set_model(net);
  weighted.set_criterion(
      torch::nn::CrossEntropyLoss(torch::nn::CrossEntropyLossOptions().weight(at::ones({4}, at::kMeta))));
  weighted.check_devices();
  EXPECT_THAT(heard.warnings, ElementsAre(Warning::device));
}

}  // namespace
}  // namespace speedtorch::test
