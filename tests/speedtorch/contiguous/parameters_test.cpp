// Tests the layout of contiguous parameters, each known pitfall of the Python package, and equality with
// LibTorch's per-tensor optimizers. contiguous_test.py compares with the optimizers that exist in Python
// only.

#include "speedtorch/contiguous/parameters.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "speedtorch/contiguous/elementwise.h"
#include "speedtorch/contiguous/optimizer.h"
#include "speedtorch/kernels/isa.h"
#include "tests/harness/temporary_folder.h"
#include "tests/worse.h"

namespace speedtorch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

at::Tensor parameter(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return at::randn(shape, dtype).set_requires_grad(true);
}

/// Parameters of 0 to 4 dimensions; every third one is transposed, channels_last or a slice.
Tensors random_parameters(unsigned seed, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(seed);
  std::mt19937 random(seed);
  Tensors all;
  for (int k = 0; k < 12; ++k) {
    std::vector<std::int64_t> shape(random() % 5);
    for (auto& size : shape) size = 1 + static_cast<std::int64_t>(random() % 9);
    if (k == 7) shape = {3, 0, 2};
    auto tensor = at::randn(shape, dtype);
    if (k % 3 == 1 && tensor.dim() >= 2) tensor = tensor.transpose(0, tensor.dim() - 1);
    if (k % 3 == 2 && tensor.dim() == 4) tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
    all.push_back(tensor.detach().set_requires_grad(true));
  }
  return all;
}

Tensors copies(const Tensors& tensors) {
  Tensors all;
  for (const auto& tensor : tensors)
    all.push_back(tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  return all;
}

/// Adds the same gradients to both, as backward does.
void add_gradients(const Tensors& ours, const Tensors& theirs, unsigned seed,
                   const std::vector<bool>& unused = {}) {
  at::manual_seed(seed);
  for (std::size_t k = 0; k < ours.size(); ++k) {
    const auto gradient = at::randn(ours[k].sizes(), ours[k].options().requires_grad(false));
    if ((k < unused.size() && unused[k]) || !ours[k].requires_grad()) continue;
    for (at::Tensor tensor : {ours[k], theirs[k]}) {
      if (tensor.grad().defined())
        tensor.mutable_grad().add_(gradient);
      else
        tensor.mutable_grad() = gradient.clone();
    }
  }
}

/// The largest difference of an element, in units in the last place of `largest`.
double most_ulps(const Tensors& found, const Tensors& wanted, const Tensors& largest) {
  double most = 0;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const auto a = found[k].detach().to(at::kDouble).contiguous();
    const auto b = wanted[k].detach().to(at::kDouble).contiguous();
    const auto c = largest[k].detach().to(at::kDouble).contiguous();
    for (std::int64_t j = 0; j < a.numel(); ++j) {
      const double value = b.data_ptr<double>()[j];
      const auto large = static_cast<float>(std::max(std::abs(value), std::abs(c.data_ptr<double>()[j])));
      const double unit = std::nextafter(large, INFINITY) - large;
      most = stbench::test::worse(most, std::abs(a.data_ptr<double>()[j] - value) / unit);
    }
  }
  return most;
}

/// The largest magnitude of each element so far.
void note_largest(Tensors& largest, const Tensors& now) {
  const at::NoGradGuard no_grad;
  for (std::size_t k = 0; k < now.size(); ++k) largest[k].copy_(at::max(largest[k].abs(), now[k].abs()));
}

std::string refusal(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

bool fuses() { return kernels::isa_in_use() == "avx512" || kernels::isa_in_use() == "avx2"; }

struct TwoLayersImpl : torch::nn::Module {
  TwoLayersImpl() {
    first = register_parameter("first", at::randn({5, 3}));
    second = register_parameter("second", at::randn({5}));
  }
  at::Tensor forward(const at::Tensor& x) { return (first.matmul(x) * second.unsqueeze(1)).pow(2).sum(); }
  at::Tensor first, second;
};
struct TwoLayers : torch::nn::ModuleHolder<TwoLayersImpl> {
  using torch::nn::ModuleHolder<TwoLayersImpl>::ModuleHolder;
};
/// Only this kind of module has clone().
struct Cloned : torch::nn::Cloneable<Cloned> {
  Cloned() { reset(); }
  void reset() override { weight = register_parameter("weight", at::ones({4, 4})); }
  at::Tensor weight;
};

TEST(ContiguousParameters, ViewsAreAlignedAndKeepValuesAndStrides) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto given = random_parameters(seed);
    const auto before = copies(given);
    const ContiguousParameters flat(given);
    ASSERT_EQ(flat.buckets().size(), 1U);
    const auto& [data, gradient] = flat.buckets()[0];
    for (const auto& place : flat.places()) {
      const auto& now = given[place.parameter];
      const auto& was = before[place.parameter];
      EXPECT_TRUE(now.equal(was));
      EXPECT_EQ(now.strides(), was.strides());
      EXPECT_EQ(now.grad().strides(), was.strides());
      if (now.numel() == 0) continue;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(now.data_ptr()) % 256, 0U);
      EXPECT_EQ(now.data_ptr<float>(), data.data_ptr<float>() + place.begin);
      EXPECT_EQ(now.grad().data_ptr<float>(), gradient.data_ptr<float>() + place.begin);
    }
    EXPECT_TRUE(flat.buffer_is_valid());
    double sum = 0;
    for (const auto& one : before) sum += one.detach().abs().sum().item<double>();
    EXPECT_NEAR(data.detach().abs().sum().item<double>(), sum, 1e-3) << "what lies between is zero";
    EXPECT_EQ(gradient.abs().sum().item<double>(), 0);
  }
}

TEST(ContiguousParameters, OriginalReturnsParametersInTheirOrder) {
  const auto given = random_parameters(1);
  const ContiguousParams flat(given);
  ASSERT_EQ(flat.original().size(), given.size());
  std::size_t k = 0;
  for (const auto& one : flat) EXPECT_TRUE(one.is_same(given[k++]));
  ASSERT_EQ(flat.contiguous().size(), 1U);
  EXPECT_TRUE(flat.contiguous()[0].is_leaf());
  EXPECT_TRUE(flat.contiguous()[0].requires_grad());
  EXPECT_TRUE(flat.contiguous()[0].grad().is_same(flat.buckets()[0].gradient));
}

TEST(ContiguousParameters, StridesAreKeptAndGapsClosed) {
  const auto image =
      at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
  const auto turned = at::randn({3, 7}).t().detach().set_requires_grad(true);
  const auto gapped = at::randn({6, 8}).slice(1, 0, 8, 2).detach().set_requires_grad(true);
  const auto before = copies({image, turned, gapped});
  const ContiguousParameters flat(Tensors{image, turned, gapped});
  EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(turned.strides(), (std::vector<std::int64_t>{1, 7}));
  EXPECT_EQ(gapped.strides(), (std::vector<std::int64_t>{4, 1}));
  EXPECT_TRUE(image.equal(before[0]) && turned.equal(before[1]) && gapped.equal(before[2]));
}

TEST(ContiguousParameters, ScalarsEmptyTensorsAndEmptyListsAreValid) {
  const ContiguousParameters none(Tensors{});
  EXPECT_TRUE(none.buffer_is_valid());
  EXPECT_TRUE(none.contiguous().empty());
  ContiguousOptimizer of_none(Tensors{}, AdamOptions{});
  EXPECT_TRUE(of_none.step({.max_norm = 1, .zero_grad = true}));
  EXPECT_EQ(of_none.gradient_norm(), 0);

  const Tensors given = {parameter({}), parameter({0}), parameter({2, 0, 3})};
  const auto expected = copies(given);
  ContiguousOptimizer optimizer(given, SGDOptions{.lr = 1});
  torch::optim::SGD reference(expected, torch::optim::SGDOptions(1));
  add_gradients(given, expected, 3);
  optimizer.step();
  reference.step();
  EXPECT_TRUE(given[0].equal(expected[0]));
  EXPECT_TRUE(optimizer.parameters().buffer_is_valid());
}

TEST(ContiguousParameters, TiedParametersAreLaidOutOnce) {
  const auto tied = parameter({4, 4});
  const auto other = parameter({3});
  const ContiguousParameters flat(Tensors{tied, other, tied});
  EXPECT_EQ(flat.size(), 2U);
  EXPECT_EQ(flat.places().size(), 2U);
  EXPECT_TRUE(flat.buffer_is_valid());
}

TEST(ContiguousParameters, FrozenParametersMayBeOfAnyKind) {
  const ContiguousParameters flat(
      Tensors{at::zeros({2}, at::kLong), at::ones({2, 2}).to_sparse(), parameter({2})});
  EXPECT_EQ(flat.size(), 3U);
  EXPECT_EQ(flat.places().size(), 1U);
}

TEST(ContiguousParameters, ErrorsNameTheParameterAndTheCure) {
  const auto whole = at::randn({4, 4});
  const auto refuse = [](const Tensors& tensors) {
    return refusal([&] { const ContiguousParameters flat(tensors); });
  };
  const auto first = whole.detach().set_requires_grad(true);
  const auto second = whole.detach().view({16}).set_requires_grad(true);
  EXPECT_THAT(refuse({first, second}), AllOf(HasSubstr("parameter 0 and parameter 1"),
                                             HasSubstr("share memory"), HasSubstr("clone()")));
  EXPECT_THAT(refuse({at::randn({3, 1}).expand({3, 4}).detach().set_requires_grad(true)}),
              HasSubstr("parameter 0 is expanded"));
  EXPECT_THAT(refuse({at::randn({5}).as_strided({3, 3}, {1, 1}).detach().set_requires_grad(true)}),
              HasSubstr("may overlap"));
  EXPECT_THAT(refuse({parameter({2}) * 2}), HasSubstr("is no leaf"));
  EXPECT_THAT(refuse({at::Tensor()}), HasSubstr("is not defined"));
  EXPECT_THAT(refuse({at::ones({2, 2}).to_sparse().set_requires_grad(true)}), HasSubstr("is not strided"));
  EXPECT_THAT(refuse({at::zeros({2}, at::kComplexFloat).set_requires_grad(true)}),
              HasSubstr("ComplexFloat; float32"));
  const auto shared = parameter({2});
  EXPECT_THAT(refusal([&] {
                const ContiguousParameters flat(
                    std::vector<ParameterGroup>{{{shared}, {"a.weight"}}, {{shared}, {"b.weight"}}});
              }),
              AllOf(HasSubstr("b.weight"), HasSubstr("two groups")));
  EXPECT_THAT(refusal([&] {
                const ContiguousParameters flat(std::vector<ParameterGroup>{{{shared}, {"a", "b"}}});
              }),
              HasSubstr("1 parameters has 2 names"));
  EXPECT_TRUE(first.storage().is_alias_of(whole.storage())) << "refused ones stay as they were";
  // One of the two is frozen and would keep the old memory. Two frozen ones stay where they are.
  const auto frozen = whole.detach().slice(0, 3);
  EXPECT_THAT(refuse({frozen, parameter({2}), first}), HasSubstr("parameter 2 and parameter 0"));
  const auto later = whole.detach().slice(0, 1).set_requires_grad(true);
  EXPECT_THAT(refuse({whole.detach(), parameter({2}), later}), HasSubstr("parameter 0 and parameter 2"));
  EXPECT_THAT(refuse({whole.detach(), frozen, parameter({2})}), HasSubstr("nothing was refused"));
  EXPECT_THAT(refuse({at::randn({3, 1}).expand({3, 4}), parameter({2})}), HasSubstr("nothing was refused"));
}

TEST(ContiguousParameters, FrozenParametersAreNeverWritten) {
  auto frozen = at::randn({6});
  const auto before = frozen.clone();
  const void* const data = frozen.data_ptr();
  const auto trained = parameter({6});
  ContiguousOptimizer optimizer(Tensors{frozen, trained}, SGDOptions{.lr = 0.1, .weight_decay = 0.1});
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    trained.sum().backward();
    optimizer.step();
  }
  EXPECT_TRUE(frozen.equal(before));
  EXPECT_EQ(frozen.data_ptr(), data);
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_EQ(optimizer.parameters().places().size(), 1U);
  EXPECT_EQ(optimizer.parameters().size(), 2U);
}

TEST(ContiguousParameters, ChecksDetectLaterFreezingAndUnfreezing) {
  auto thawed = at::randn({6});
  auto frozen = parameter({6});
  ContiguousOptimizer both(Tensors{thawed, frozen}, AdamWOptions{});
  frozen.set_requires_grad(false);
  EXPECT_FALSE(both.parameters().buffer_is_valid());
  EXPECT_THAT(refusal([&] { both.step(); }),
              AllOf(HasSubstr("parameter 1 was frozen"), HasSubstr("rebuild()")));
  frozen.set_requires_grad(true);
  EXPECT_TRUE(both.parameters().buffer_is_valid());
  thawed.set_requires_grad(true);
  EXPECT_FALSE(both.parameters().buffer_is_valid());
  EXPECT_THAT(refusal([&] { both.step(); }), HasSubstr("parameter 0 was frozen and requires a gradient now"));
  both.rebuild();
  EXPECT_EQ(both.parameters().places().size(), 2U);
  EXPECT_TRUE(both.step());
}

TEST(ContiguousParameters, EachDtypeHasABuffer) {
  const Tensors given = {parameter({3}),
                         parameter({4}, at::kDouble),
                         parameter({5}),
                         parameter({6}, at::kBFloat16),
                         parameter({7}, at::kHalf),
                         parameter({8}, at::kBFloat16)};  // the second of its buffer
  const ContiguousParameters flat(given);
  ASSERT_EQ(flat.buckets().size(), 4U);
  for (const auto& place : flat.places()) {
    EXPECT_EQ(flat.buckets()[place.bucket].data.scalar_type(), given[place.parameter].scalar_type());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(given[place.parameter].data_ptr()) % 256, 0U);
  }
}

TEST(ContiguousParameters, ExistingGradientsKeepTheirValues) {
  const auto one = parameter({3});
  (one * 2).sum().backward();
  const ContiguousParameters flat(Tensors{one});
  EXPECT_TRUE(one.grad().equal(at::full({3}, 2.0F)));
  EXPECT_TRUE(flat.used(0));
}

TEST(ContiguousParameters, BuffersLieInTheRequestedPlacement) {
  for (const auto placement : {Placement::hugepage, Placement::pageable, Placement::libtorch}) {
    const auto large = parameter({700, 1000});
    const auto before = large.detach().clone();
    const ContiguousParameters flat(Tensors{large, parameter({3})}, {placement});
    EXPECT_TRUE(large.equal(before));
    const bool libtorchs =
        large.storage().data_ptr().get_deleter() == c10::GetAllocator(c10::kCPU)->raw_deleter();
    EXPECT_EQ(libtorchs, placement == Placement::libtorch);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data_ptr()) % 256, 0U);
  }
}

// The validity check: data moved, gradient moved, gradient missing. SpeedTorch's own test is `weight + 4`.
TEST(ContiguousParameters, ErrorsSayWhatMovedWhichParameter) {
  auto module = TwoLayers();
  ContiguousParameters flat({named(module->named_parameters())});
  const auto invalid = [&](const char* what) {
    EXPECT_FALSE(flat.buffer_is_valid());
    const auto text = refusal([&] { flat.assert_buffer_is_valid(); });
    EXPECT_THAT(text, HasSubstr(what));
    return text;
  };
  flat.assert_buffer_is_valid();

  module->second.set_data(module->second.detach() + 4);
  EXPECT_THAT(invalid("has its data elsewhere"), AllOf(HasSubstr("second "), HasSubstr("rebuild()")));
  flat.rebuild();
  EXPECT_TRUE(flat.buffer_is_valid());

  module->first.mutable_grad() = at::zeros({5, 3});
  EXPECT_THAT(invalid("is not the one in the buffer"), HasSubstr("gradient of first"));
  flat.prepare_step();
  EXPECT_TRUE(flat.buffer_is_valid());

  module->first.mutable_grad().set_data(at::zeros({5, 3}));
  invalid("gradient of first is not the one in the buffer");
  flat.prepare_step();
  EXPECT_TRUE(flat.buffer_is_valid());

  module->zero_grad();
  invalid("gradient of first is none");
  flat.zero_grad();
  EXPECT_TRUE(flat.buffer_is_valid());

  module->to(at::kDouble);
  EXPECT_THAT(invalid("first was cast from Float to Double"), HasSubstr("rebuild()"));
  flat.rebuild();
  module->first.set_data(module->first.detach().view({3, 5}));
  invalid("first was [5, 3] with strides [3, 1] and is [3, 5] with strides [5, 1]");
}

// Same memory and sizes, but other strides.
TEST(ContiguousParameters, ErrorsSayThatStridesChanged) {
  at::Tensor square = parameter({3, 3});
  const ContiguousParameters flat(Tensors{square});
  square.set_data(square.detach().t());
  EXPECT_FALSE(flat.buffer_is_valid());
  EXPECT_THAT(refusal([&] { flat.assert_buffer_is_valid(); }),
              HasSubstr("is [3, 3] with strides [1, 3]; rebuild()"));
}

TEST(ContiguousParameters, ValidityCheckNeverThrows) {
  auto one = parameter({3});
  const ContiguousParameters flat(Tensors{one});
  one.set_data(at::zeros({0}));
  one.mutable_grad().reset();
  EXPECT_FALSE(flat.buffer_is_valid());
  static_assert(noexcept(flat.buffer_is_valid()));
}

TEST(ContiguousParameters, RebuildMayBeRepeated) {
  const auto given = random_parameters(4);
  const auto before = copies(given);
  ContiguousParameters flat(given);
  for (int k = 0; k < 3; ++k) flat.rebuild();
  EXPECT_EQ(flat.places().size(), given.size());
  EXPECT_TRUE(flat.buffer_is_valid());
  EXPECT_EQ(most_ulps(given, before, before), 0);
}

TEST(ContiguousParameters, RebuildKeepsGradientsUnused) {
  const auto used = parameter({3});
  const auto unused = parameter({4});
  ContiguousOptimizer optimizer(Tensors{used, unused}, SGDOptions{.lr = 1, .weight_decay = 0.5});
  const auto before = unused.detach().clone();
  used.grad().fill_(1);
  optimizer.rebuild();
  EXPECT_TRUE(optimizer.parameters().used(0));
  EXPECT_FALSE(optimizer.parameters().used(1));
  EXPECT_TRUE(used.grad().equal(at::ones({3})));
  optimizer.step({.zero_grad = true});
  EXPECT_TRUE(unused.equal(before));
  optimizer.parameters().gradients_written();
  optimizer.rebuild();
  EXPECT_TRUE(optimizer.parameters().used(1));
  optimizer.step({.zero_grad = true});
  EXPECT_TRUE(unused.equal(before * 0.5));
  EXPECT_FALSE(optimizer.parameters().used(1));
}

// Converts a stock optimizer's flat states to one tensor per parameter, and back.
TEST(ContiguousParameters, SplitAndJoinConvertStatesOfAStockOptimizer) {
  auto ours = random_parameters(5);
  ours[4].set_requires_grad(false);
  const auto theirs = copies(ours);
  ContiguousParameters flat(ours);
  torch::optim::Adam optimizer(flat.contiguous(), torch::optim::AdamOptions(0.01));
  add_gradients(ours, theirs, 1);
  optimizer.step();
  torch::optim::Adam apart(theirs, torch::optim::AdamOptions(0.01));
  apart.step();
  const auto state_of = [](torch::optim::Adam& adam, const at::Tensor& one) -> torch::optim::AdamParamState& {
    return static_cast<torch::optim::AdamParamState&>(*adam.state().at(one.unsafeGetTensorImpl()));
  };
  auto& of_flat = state_of(optimizer, flat.contiguous()[0]);
  const auto parts = flat.split({of_flat.exp_avg()});
  ASSERT_EQ(parts.size(), ours.size());
  EXPECT_FALSE(parts[4].defined());
  Tensors wanted(ours.size());
  for (std::size_t k = 0; k < ours.size(); ++k) {
    if (k == 4) continue;
    wanted[k] = state_of(apart, theirs[k]).exp_avg();
    EXPECT_TRUE(parts[k].equal(wanted[k])) << k;
    EXPECT_EQ(parts[k].strides(), ours[k].strides());
  }
  const auto joined = flat.join(wanted);
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_TRUE(joined[0].equal(of_flat.exp_avg()));

  EXPECT_THAT(refusal([&] { (void)flat.split({}); }), HasSubstr("0 flat tensors were given; there are 1"));
  EXPECT_THAT(refusal([&] { (void)flat.split({at::zeros({3})}); }), HasSubstr("flat tensor 0 is [3]"));
  wanted[2] = at::zeros({77});
  EXPECT_THAT(refusal([&] { (void)flat.join(wanted); }), HasSubstr("given for parameter 2 is [77]"));
  wanted[2] = at::Tensor();
  EXPECT_THAT(refusal([&] { (void)flat.join(wanted); }), HasSubstr("parameter 2 is not defined"));
  wanted.pop_back();
  EXPECT_THAT(refusal([&] { (void)flat.join(wanted); }), HasSubstr("11 tensors were given; there are 12"));
}

TEST(ContiguousParameters, SplitAndJoinAcceptAnyDtypePerBuffer) {
  const Tensors given = {parameter({3}), parameter({2, 2}, at::kBFloat16), parameter({5})};
  const ContiguousParameters flat(given);
  Tensors states;
  for (const auto& one : given) states.push_back(one.detach().to(at::kFloat));
  const auto joined = flat.join(states);
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[1].scalar_type(), at::kFloat);
  EXPECT_EQ(joined[1].numel(), flat.buckets()[1].data.numel());
  EXPECT_EQ(most_ulps(flat.split(joined), states, states), 0);
}

/// Creates an optimizer of LibTorch, or ours.
struct Pair {
  std::string name;
  UpdateOptions ours;
  std::function<std::unique_ptr<torch::optim::Optimizer>(Tensors)> theirs;
  bool same_path;  ///< ATen rounds where we do
};

template <class Optimizer, class Options>
auto maker(Options options) {
  return [options](Tensors tensors) { return std::make_unique<Optimizer>(std::move(tensors), options); };
}

std::vector<Pair> pairs() {
  using namespace torch::optim;
  return {
      {"SGD", speedtorch::SGDOptions{.lr = 0.1}, maker<SGD>(torch::optim::SGDOptions(0.1)), true},
      {"SGDDecay", speedtorch::SGDOptions{.lr = 0.1, .weight_decay = 0.01},
       maker<SGD>(torch::optim::SGDOptions(0.1).weight_decay(0.01)), true},
      {"SGDMomentum", speedtorch::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2},
       maker<SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.2)), true},
      {"SGDNesterov", speedtorch::SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true},
       maker<SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true)), true},
      {"Adam", speedtorch::AdamOptions{.lr = 0.01}, maker<Adam>(torch::optim::AdamOptions(0.01)), false},
      {"AdamAmsgrad", speedtorch::AdamOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true},
       maker<Adam>(torch::optim::AdamOptions(0.01).weight_decay(0.1).amsgrad(true)), false},
      {"AdamW", speedtorch::AdamWOptions{.lr = 0.01}, maker<AdamW>(torch::optim::AdamWOptions(0.01)), false},
      {"Adagrad", speedtorch::AdagradOptions{.lr = 0.01, .lr_decay = 0.1},
       maker<Adagrad>(torch::optim::AdagradOptions(0.01).lr_decay(0.1)), false},
      {"RMSprop", speedtorch::RMSpropOptions{.lr = 0.01, .momentum = 0.5},
       maker<RMSprop>(torch::optim::RMSpropOptions(0.01).momentum(0.5)), false},
  };
}

void follow(const Pair& pair, int steps, unsigned seed) {
  const auto ours = random_parameters(seed);
  auto largest = copies(ours);
  const auto theirs = copies(ours);
  ContiguousOptimizer optimizer(ours, pair.ours);
  const auto reference = pair.theirs(theirs);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    reference->zero_grad(false);
    add_gradients(ours, theirs, static_cast<unsigned>(step) + 100 * seed);
    optimizer.step();
    reference->step();
    note_largest(largest, theirs);
  }
  const double allowed = pair.same_path && fuses() ? 0 : 2 * steps;
  EXPECT_LE(most_ulps(ours, theirs, largest), allowed) << pair.name << ", " << steps << " steps";
}

// Tolerance: 0 if ATen takes the same path, else 2 units in the last place per step.
TEST(ContiguousOptimizer, StepsAsLibTorchDoesTensorByTensor) {
  for (const auto& pair : pairs()) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      follow(pair, 5, seed);
      follow(pair, 50, seed);
    }
  }
}

// The default of zero_grad() since LibTorch 1.7: gradients become none, and backward creates new ones.
TEST(ContiguousOptimizer, StepReattachesGradientsThatWereSetToNone) {
  const auto ours = random_parameters(2);
  const auto theirs = copies(ours);
  ContiguousOptimizer optimizer(ours, SGDOptions{.lr = 0.1, .momentum = 0.9});
  torch::optim::SGD reference(theirs, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (unsigned step = 0; step < 15; ++step) {
    torch::optim::SGD(ours, torch::optim::SGDOptions(1)).zero_grad();
    reference.zero_grad();
    add_gradients(ours, theirs, step);
    EXPECT_FALSE(optimizer.parameters().buffer_is_valid());
    optimizer.step();
    EXPECT_TRUE(optimizer.parameters().buffer_is_valid());
    reference.step();
  }
  EXPECT_LE(most_ulps(ours, theirs, theirs), fuses() ? 0 : 30);
}

TEST(ContiguousOptimizer, OptionRefusesGradientsThatWereSetToNone) {
  const Tensors ours = {parameter({3})};
  ContiguousOptimizer optimizer({ParameterGroup{ours, {"head.bias"}}}, AdamOptions{},
                                {.buffers = {.detached_gradient = DetachedGradient::refuse}});
  const auto before = copies(ours);
  torch::optim::SGD(ours, torch::optim::SGDOptions(1)).zero_grad();
  EXPECT_THAT(refusal([&] { optimizer.step(); }), HasSubstr("the gradient of head.bias is none"));
  (ours[0] * 2).sum().backward();
  EXPECT_THAT(refusal([&] { optimizer.step(); }),
              HasSubstr("the gradient of head.bias is not the one in the buffer"));
  EXPECT_TRUE(ours[0].equal(before[0]));
  optimizer.zero_grad();
  (ours[0] * 2).sum().backward();
  EXPECT_TRUE(optimizer.step());
}

// Values left in the buffer from before the gradient was set to none do not count.
TEST(ContiguousOptimizer, OptionTreatsNoneAsZero) {
  const Tensors ours = {parameter({3}), parameter({4})};
  ContiguousOptimizer optimizer(ours, SGDOptions{.lr = 1}, {.unused = Unused::zero});
  for (const auto& one : ours) one.grad().fill_(1);
  optimizer.step();
  const auto before = copies(ours);
  for (at::Tensor one : ours) one.mutable_grad() = at::Tensor();
  at::Tensor(ours[0]).mutable_grad() = at::full({3}, 2.0F);
  optimizer.step({.max_norm = 1e6});
  EXPECT_TRUE(ours[0].equal(before[0] - 2));
  EXPECT_TRUE(ours[1].equal(before[1]));
  EXPECT_NEAR(optimizer.gradient_norm(), std::sqrt(12.0), 1e-12);
}

TEST(ContiguousParameters, ClippingDoesNotCountAsUse) {
  const Tensors ours = {parameter({3}), parameter({4})};
  ContiguousParameters flat(ours);
  ours[0].grad().fill_(10);
  flat.clip_grad_norm(1);
  flat.clip_grad_value(0.1);
  EXPECT_TRUE(flat.used(0));
  EXPECT_FALSE(flat.used(1));
  EXPECT_TRUE(ours[0].grad().equal(at::full({3}, 0.1F)));
}

// A LibTorch optimizer on the buffers, as in SpeedTorch.
TEST(ContiguousParameters, StockOptimizerTrainsTheBuffers) {
  const auto ours = random_parameters(3);
  const auto theirs = copies(ours);
  ContiguousParameters flat(ours);
  torch::optim::Adam optimizer(flat.contiguous(), torch::optim::AdamOptions(0.01));
  torch::optim::Adam reference(theirs, torch::optim::AdamOptions(0.01));
  for (unsigned step = 0; step < 5; ++step) {
    flat.zero_grad();
    reference.zero_grad(false);
    add_gradients(ours, theirs, step);
    flat.prepare_step();
    optimizer.step();
    reference.step();
    flat.assert_buffer_is_valid();
  }
  EXPECT_EQ(most_ulps(ours, theirs, theirs), 0);
  optimizer.zero_grad();
  EXPECT_FALSE(flat.buffer_is_valid());
  EXPECT_THAT(refusal([&] { flat.prepare_step(); }),
              AllOf(HasSubstr("gradient of a buffer was set to none"),
                    HasSubstr("Call zero_grad() of the contiguous parameters")));
}

TEST(ContiguousOptimizer, StepSkipsUnusedParametersOrTreatsThemAsZero) {
  const std::vector<bool> unused = {false, true, false, true};
  for (const bool skip : {true, false}) {
    const Tensors ours = {parameter({4}), parameter({5}), parameter({6}), parameter({2, 2})};
    const auto start = copies(ours);
    const auto theirs = copies(ours);
    ContiguousOptimizer optimizer(ours, SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1},
                                  {.unused = skip ? Unused::skip : Unused::zero});
    torch::optim::SGD reference(theirs, torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1));
    for (unsigned step = 0; step < 9; ++step) {
      optimizer.zero_grad();
      reference.zero_grad(skip && step > 0);  // none is skipped, zeros are not
      if (step == 0)
        add_gradients(ours, theirs, step);
      else
        add_gradients(ours, theirs, step, step % 2 == 1 ? unused : std::vector<bool>{});
      optimizer.step({.zero_grad = step % 3 == 0});
      reference.step();
    }
    EXPECT_LE(most_ulps(ours, theirs, start), fuses() ? 0 : 18) << skip;
    EXPECT_EQ(optimizer.state()[1].steps, skip ? 5 : 9);
  }
}

// Neighbours with different step counts are separate runs: the first step of Adam has length lr.
TEST(ContiguousOptimizer, StepsAreCountedPerParameter) {
  const Tensors ours = {parameter({3}), parameter({4})};
  ContiguousOptimizer optimizer(ours, AdamOptions{.lr = 0.125});
  ours[0].grad().fill_(1);
  optimizer.step({.zero_grad = true});
  const auto before = copies(ours);
  for (const auto& one : ours) one.grad().fill_(1);
  optimizer.step();
  EXPECT_TRUE(ours[1].allclose(before[1] - 0.125, 0, 1e-6));
  EXPECT_TRUE(ours[0].allclose(before[0] - 0.125, 0, 1e-6));
  EXPECT_EQ(optimizer.state()[0].steps, 2);
  EXPECT_EQ(optimizer.state()[1].steps, 1);
}

TEST(ContiguousOptimizer, WriteToTheBufferUsesAllParameters) {
  const auto one = parameter({3});
  ContiguousOptimizer optimizer(Tensors{one}, SGDOptions{.lr = 1});
  const auto before = one.detach().clone();
  optimizer.step();
  EXPECT_TRUE(one.equal(before));
  at::Tensor buffer = optimizer.parameters().buckets()[0].gradient;
  buffer.add_(1);  // as a collective operation of tensors does
  optimizer.step({.zero_grad = true});
  EXPECT_TRUE(one.equal(before - 1));
  buffer.data_ptr<float>()[0] = 1;  // as MPI does
  optimizer.parameters().gradients_written();
  optimizer.step();
  EXPECT_EQ(one[0].item<float>(), before[0].item<float>() - 2);
}

// A write to the whole buffer concerned gradients that no longer exist.
TEST(ContiguousOptimizer, ZeroGradEndsTheUseOfABufferWrite) {
  for (const bool by_pointer : {false, true}) {
    const auto used = parameter({3});
    const auto unused = parameter({4});
    ContiguousOptimizer optimizer(Tensors{used, unused}, SGDOptions{.lr = 1, .weight_decay = 0.5});
    at::Tensor buffer = optimizer.parameters().buckets()[0].gradient;
    if (by_pointer)
      optimizer.parameters().gradients_written();
    else
      buffer.add_(0);
    optimizer.step();
    for (const auto& one : {used, unused}) one.mutable_grad() = at::Tensor();
    used.mutable_grad() = at::ones({3});
    const auto before = copies({used, unused});
    optimizer.step();
    EXPECT_TRUE(used.allclose(before[0] * 0.5 - 1, 0, 1e-6)) << by_pointer;
    EXPECT_TRUE(unused.equal(before[1])) << by_pointer;
  }
}

// A collective operation on the buffer processes only what lies in it.
TEST(ContiguousParameters, RawWriteThatMissedAGradientIsRefused) {
  const auto one = parameter({3});
  ContiguousParameters flat(Tensors{one});
  one.mutable_grad() = at::ones({3});
  EXPECT_THAT(refusal([&] { flat.gradients_written(); }),
              AllOf(HasSubstr("parameter 0"), HasSubstr("prepare_step()")));
  flat.prepare_step();
  EXPECT_TRUE(flat.buckets()[0].gradient.slice(0, 0, 3).equal(at::ones({3})));
  EXPECT_NO_THROW(flat.gradients_written());
  EXPECT_TRUE(flat.used(0));
}

TEST(ContiguousOptimizer, StepsGroupsByTheirOwnOptions) {
  const auto ours = random_parameters(6);
  const auto start = copies(ours);
  const auto theirs = copies(ours);
  const auto half = [](const Tensors& all, bool first) {
    return first ? Tensors(all.begin(), all.begin() + 5) : Tensors(all.begin() + 5, all.end());
  };
  ContiguousOptimizer optimizer(
      {{half(ours, true)}, {half(ours, false), {}, SGDOptions{.lr = 0.5, .weight_decay = 0.1}}},
      SGDOptions{.lr = 0.1});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(half(theirs, true), std::make_unique<torch::optim::SGDOptions>(0.1));
  auto second = std::make_unique<torch::optim::SGDOptions>(0.5);
  second->weight_decay(0.1);
  groups.emplace_back(half(theirs, false), std::move(second));
  torch::optim::SGD reference(groups, torch::optim::SGDOptions(0.1));
  EXPECT_EQ(optimizer.parameters().buckets().size(), 1U);
  for (unsigned step = 0; step < 6; ++step) {
    if (step == 3) {
      optimizer.set_lr(0.05);
      for (auto& group : reference.param_groups()) group.options().set_lr(0.05);
    }
    optimizer.zero_grad();
    reference.zero_grad(false);
    add_gradients(ours, theirs, step);
    optimizer.step();
    reference.step();
  }
  EXPECT_LE(most_ulps(ours, theirs, start), fuses() ? 0 : 12);
  EXPECT_THAT(refusal([&] { optimizer.set_options(1, AdamOptions{}); }),
              HasSubstr("group 1 has another optimizer"));
  EXPECT_THAT(refusal([&] { optimizer.set_options(0, SGDOptions{.momentum = 0.9}); }),
              HasSubstr("other states"));
  EXPECT_THAT(refusal([&] { optimizer.set_lr(-1); }), HasSubstr("lr is -1"));
  EXPECT_THAT(refusal([&] { optimizer.set_options(2, SGDOptions{}); }), HasSubstr("there is no group 2"));
}

TEST(ContiguousOptimizer, TrainingContinuesAfterCastAndLoad) {
  auto ours = TwoLayers();
  auto theirs = TwoLayers();
  theirs->first.set_data(ours->first.detach().clone());
  theirs->second.set_data(ours->second.detach().clone());
  const auto x = at::randn({3, 2}, at::kDouble);
  const auto begin = copies(ours->parameters());
  std::stringstream file;
  torch::save(ours.ptr(), file);
  ContiguousOptimizer optimizer({named(ours->named_parameters())}, SGDOptions{.lr = 0.01, .momentum = 0.9});
  torch::optim::SGD reference(theirs->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const auto steps = [&](at::ScalarType dtype) {
    for (int k = 0; k < 3; ++k) {
      optimizer.zero_grad();
      reference.zero_grad();
      ours->forward(x.to(dtype)).backward();
      theirs->forward(x.to(dtype)).backward();
      optimizer.step();
      reference.step();
    }
  };
  steps(at::kFloat);
  // LibTorch's momentum stays float32 after a cast, and adding float64 to it loses bits, so the reference
  // casts it by hand.
  ours->to(at::kDouble);
  EXPECT_THAT(refusal([&] { optimizer.step(); }), HasSubstr("first was cast from Float to Double"));
  optimizer.rebuild();
  theirs->to(at::kDouble);
  for (auto& [key, state] : reference.state()) {
    auto& of_sgd = static_cast<torch::optim::SGDParamState&>(*state);
    of_sgd.momentum_buffer(of_sgd.momentum_buffer().to(at::kDouble));
  }
  steps(at::kDouble);
  EXPECT_LE(most_ulps(ours->parameters(), theirs->parameters(), begin), fuses() ? 0 : 12);
  EXPECT_EQ(optimizer.state()[0].steps, 6);

  ours->to(at::kFloat);
  optimizer.rebuild();
  auto same = ours.ptr();
  torch::load(same, file);
  EXPECT_THAT(refusal([&] { optimizer.step(); }),
              AllOf(HasSubstr("first has its data elsewhere: an assignment"), HasSubstr("rebuild()")));
  optimizer.rebuild();
  EXPECT_EQ(most_ulps(ours->parameters(), begin, begin), 0);
  optimizer.zero_grad();
  ours->forward(x.to(ours->first.scalar_type())).backward();
  EXPECT_TRUE(optimizer.step());
  EXPECT_GT(most_ulps(ours->parameters(), begin, begin), 0);
}

TEST(ContiguousOptimizer, ClonesAndFilesOfTheModuleAreIndependent) {
  auto module = std::make_shared<Cloned>();
  ContiguousOptimizer optimizer(module->parameters(), SGDOptions{.lr = 1});
  const auto copy = std::dynamic_pointer_cast<Cloned>(module->clone());
  std::stringstream file;
  torch::save(module, file);
  EXPECT_LT(file.str().size(), 5000U) << "the file holds the parameters, not the buffer";
  module->weight.sum().backward();
  optimizer.step();
  EXPECT_TRUE(optimizer.parameters().buffer_is_valid());
  EXPECT_TRUE(module->weight.equal(at::zeros({4, 4})));
  EXPECT_TRUE(copy->weight.equal(at::ones({4, 4})));
  auto read = std::make_shared<Cloned>();
  torch::load(read, file);
  EXPECT_TRUE(read->weight.equal(at::ones({4, 4})));
}

TEST(ContiguousParameters, ClippingEqualsLibTorchs) {
  for (const double most : {0.5, 1e6}) {
    const auto ours = random_parameters(8);
    const auto theirs = copies(ours);
    ContiguousParameters flat(ours);
    add_gradients(ours, theirs, 1);
    const double norm = flat.clip_grad_norm(most);
    const double wanted = torch::nn::utils::clip_grad_norm_(theirs, most);
    EXPECT_NEAR(norm, wanted, 1e-6 * wanted);
    for (std::size_t k = 0; k < ours.size(); ++k)
      EXPECT_TRUE(ours[k].grad().allclose(theirs[k].grad(), 1e-6, 0));
    EXPECT_TRUE(flat.buffer_is_valid());
    flat.clip_grad_value(0.01);
    torch::nn::utils::clip_grad_value_(theirs, 0.01);
    for (std::size_t k = 0; k < ours.size(); ++k)
      EXPECT_TRUE(ours[k].grad().allclose(theirs[k].grad(), 1e-6, 0));
  }
}

TEST(ContiguousOptimizer, OnePassClipsStepsAndZerosAsThreeDo) {
  const Tensors mixed = {parameter({40}), parameter({9, 9}, at::kDouble), parameter({500})};
  const auto apart = copies(mixed);
  const auto together = copies(mixed);
  ContiguousOptimizer one(together, AdamOptions{.lr = 0.1});
  ContiguousOptimizer three(apart, AdamOptions{.lr = 0.1});
  for (unsigned step = 0; step < 4; ++step) {
    add_gradients(together, apart, step);
    const double norm = three.parameters().clip_grad_norm(0.1);
    three.step();
    three.zero_grad();
    one.step({.max_norm = 0.1, .zero_grad = true});
    EXPECT_EQ(one.gradient_norm(), norm);
    for (const auto& bucket : one.parameters().buckets())
      EXPECT_EQ(bucket.gradient.abs().sum().item<double>(), 0);
  }
  EXPECT_EQ(most_ulps(together, apart, mixed), 0);
  EXPECT_GT(most_ulps(together, mixed, mixed), 0);
}

// Order: unscale, clip by value, clip by norm, as torch's functions in sequence.
TEST(ContiguousOptimizer, OnePassClipsByValueAndByNorm) {
  const auto ours = random_parameters(11);
  const auto theirs = copies(ours);
  ContiguousOptimizer optimizer(ours, SGDOptions{.lr = 0.5});
  torch::optim::SGD reference(theirs, torch::optim::SGDOptions(0.5));
  add_gradients(ours, theirs, 3);
  for (const auto& one : theirs) one.grad().mul_(0.25);
  torch::nn::utils::clip_grad_value_(theirs, 0.2);
  const double norm = torch::nn::utils::clip_grad_norm_(theirs, 0.3);
  EXPECT_GT(norm, 0.3);
  reference.step();
  optimizer.step({.inv_scale = 0.25, .max_value = 0.2, .max_norm = 0.3});
  EXPECT_NEAR(optimizer.gradient_norm(), norm, 1e-6 * norm);
  for (std::size_t k = 0; k < ours.size(); ++k) EXPECT_TRUE(ours[k].allclose(theirs[k], 1e-6, 1e-7)) << k;
}

TEST(ContiguousOptimizer, InvalidClippingLimitsAreRefused) {
  ContiguousOptimizer optimizer(Tensors{parameter({2})}, SGDOptions{});
  EXPECT_THAT(refusal([&] { optimizer.step({.max_norm = -1.0}); }), HasSubstr("max_norm is -1"));
  EXPECT_THAT(refusal([&] { optimizer.step({.max_value = NAN}); }), HasSubstr("max_value is nan"));
  EXPECT_THAT(refusal([&] { optimizer.parameters().clip_grad_value(-2); }), HasSubstr("max_value is -2"));
  EXPECT_THAT(refusal([&] { optimizer.parameters().clip_grad_norm(NAN); }), HasSubstr("max_norm is nan"));
}

TEST(ContiguousOptimizer, StepUnscalesAndSkipsNonFiniteGradients) {
  const Tensors ours = {parameter({5}), parameter({3})};
  const auto plain = copies(ours);
  const auto start = copies(ours);
  ContiguousOptimizer scaled(ours, AdamOptions{.lr = 0.1});
  ContiguousOptimizer reference(plain, AdamOptions{.lr = 0.1});
  add_gradients(ours, plain, 1);
  for (const auto& tensor : ours) tensor.grad().mul_(1024);
  EXPECT_FALSE(scaled.step({.inv_scale = 1.0 / 1024, .found_inf = at::ones({1})}));
  EXPECT_EQ(most_ulps(ours, start, start), 0);
  EXPECT_EQ(scaled.state()[0].steps, 0);
  EXPECT_TRUE(scaled.step({.inv_scale = 1.0 / 1024, .skip_non_finite = true, .found_inf = at::zeros({1})}));
  reference.step();
  EXPECT_EQ(most_ulps(ours, plain, start), 0);

  const auto before = copies(ours);
  ours[1].grad()[1].fill_(INFINITY);
  EXPECT_FALSE(scaled.step({.zero_grad = true, .skip_non_finite = true}));
  EXPECT_EQ(most_ulps(ours, before, start), 0);
  EXPECT_EQ(scaled.state()[0].steps, 1);
  EXPECT_EQ(ours[1].grad().sum().item<float>(), 0);
  EXPECT_THAT(refusal([&] { scaled.step({.found_inf = at::zeros({2})}); }),
              HasSubstr("found_inf is Float [2]"));
}

// Clamping makes an infinite gradient, and hence the norm, finite.
TEST(ContiguousOptimizer, StepSkipsNonFiniteGradientsThatClampingHides) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const Tensors ours = {parameter({5}, dtype), parameter({3}, dtype)};
    ours[0].detach().fill_(-1.25);  // a step of 1 is exact in each dtype
    const auto before = copies(ours);
    ContiguousOptimizer optimizer(ours, SGDOptions{.lr = 1});
    ours[0].grad()[4].fill_(-INFINITY);
    EXPECT_FALSE(optimizer.step({.max_value = 1, .skip_non_finite = true}));
    EXPECT_FALSE(optimizer.step({.max_value = 1, .max_norm = 1, .skip_non_finite = true}));
    EXPECT_TRUE(ours[0].equal(before[0]));
    EXPECT_TRUE(optimizer.step({.max_value = 1}));
    EXPECT_EQ(ours[0][4].item<float>(), -0.25F);
  }
}

TEST(ContiguousOptimizer, PaddingStaysZero) {
  const Tensors ours = {parameter({3}), parameter({70})};
  const auto theirs = copies(ours);
  // Without eps, the padding computes 0 / 0.
  ContiguousOptimizer optimizer(ours, AdamOptions{.lr = 0.1, .eps = 0, .weight_decay = 0.1});
  add_gradients(ours, theirs, 1);
  optimizer.step({.max_norm = 1});
  const auto& data = optimizer.parameters().buckets()[0].data;
  double sum = 0;
  for (const auto& one : ours) sum += one.detach().abs().sum().item<double>();
  EXPECT_NEAR(data.detach().abs().sum().item<double>(), sum, 1e-4);
}

TEST(ContiguousOptimizer, PaddingStaysZeroAfterANaNNorm) {
  const Tensors ours = {parameter({3})};
  ContiguousOptimizer optimizer(ours, AdamOptions{.lr = 0.1});
  ours[0].grad().fill_(NAN);
  optimizer.step({.max_norm = 1, .zero_grad = true});  // as torch: all become NaN
  EXPECT_TRUE(std::isnan(ours[0][0].item<float>()));
  optimizer.set_lr(0.05);  // as a scheduler does
  ours[0].grad().fill_(1);
  optimizer.step();
  EXPECT_EQ(optimizer.parameters().buckets()[0].data.slice(0, 3).abs().sum().item<float>(), 0);
}

/// LARS limits a step by the norm of the parameter. Sign descent only looks similar.
std::function<void()> lars(Tensors parameters) {
  return [parameters = std::move(parameters)] {
    const at::NoGradGuard no_grad;
    for (at::Tensor one : parameters) one.sub_(one.grad() * (0.01 * one.norm() / one.grad().norm()));
  };
}
std::function<void()> sign_descent(Tensors parameters) {
  return [parameters = std::move(parameters)] {
    const at::NoGradGuard no_grad;
    for (at::Tensor one : parameters) one.sub_(one.grad().sign() * 0.01);
  };
}

TEST(CheckElementwise, RefusesOptimizersThatLookAtShapes) {
  EXPECT_THAT(
      refusal([] { check_elementwise("LARS", lars); }),
      AllOf(HasSubstr("LARS depends on the shapes"), HasSubstr("original() instead of contiguous()")));
  EXPECT_NO_THROW(check_elementwise("sign descent", sign_descent));
  EXPECT_NO_THROW(check_elementwise("Adam", [](Tensors parameters) -> std::function<void()> {
    const auto adam =
        std::make_shared<torch::optim::Adam>(std::move(parameters), torch::optim::AdamOptions(0.1));
    return [adam] { adam->step(); };
  }));
  EXPECT_THAT(refusal([] { ContiguousOptimizer(Tensors{}, SparseAdamOptions{}); }),
              HasSubstr("SparseAdam updates the rows that an index names; whole parameters take Adam"));
}

TEST(ContiguousOptimizer, RoundsParametersOfHalfPrecisionFromTheirMasters) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    const Tensors ours = {parameter({50}, dtype), parameter({7, 3}, dtype)};
    Tensors masters;
    for (const auto& one : ours) masters.push_back(one.detach().to(at::kFloat).set_requires_grad(true));
    ContiguousOptimizer optimizer(ours, SGDOptions{.lr = 1e-4, .momentum = 0.9});
    torch::optim::SGD reference(masters, torch::optim::SGDOptions(1e-4).momentum(0.9));
    for (unsigned step = 0; step < 50; ++step) {
      if (step == 25) {  // a write to a parameter: its master follows
        const at::NoGradGuard no_grad;
        at::Tensor(ours[1]).mul_(2);
        masters[1].copy_(ours[1]);
      }
      optimizer.zero_grad();
      reference.zero_grad(false);
      at::manual_seed(step);
      for (std::size_t k = 0; k < ours.size(); ++k) {
        const auto gradient = at::randn(ours[k].sizes()).to(dtype);
        ours[k].grad().copy_(gradient);
        masters[k].mutable_grad() = gradient.to(at::kFloat);
      }
      optimizer.step();
      reference.step();
    }
    for (std::size_t k = 0; k < ours.size(); ++k) {
      if (fuses())
        EXPECT_TRUE(ours[k].equal(masters[k].to(dtype)));
      else
        EXPECT_TRUE(ours[k].allclose(masters[k].to(dtype), 1e-2));
    }
    {  // the same, to the whole buffer
      const at::NoGradGuard no_grad;
      at::Tensor buffer = optimizer.parameters().buckets()[0].data;
      buffer.mul_(2);
      const auto doubled = copies(ours);
      optimizer.zero_grad();
      for (const auto& one : ours) one.grad().fill_(0);
      auto still = optimizer.options();
      std::get<speedtorch::SGDOptions>(still).lr = 0;
      optimizer.set_options(0, still);
      optimizer.step();
      EXPECT_EQ(most_ulps(ours, doubled, doubled), 0);
    }
    // A master whose rounding is no longer its parameter is dropped.
    const auto state = optimizer.state();
    ASSERT_EQ(state[0].tensors.back().first, "master");
    EXPECT_EQ(state[0].tensors.back().second.scalar_type(), at::kFloat);
    at::Tensor(ours[0]).set_data(at::ones({50}, dtype));
    optimizer.rebuild();
    EXPECT_TRUE(optimizer.state()[0].tensors.back().second.equal(at::ones({50})));
    EXPECT_TRUE(optimizer.state()[1].tensors.back().second.equal(state[1].tensors.back().second));
  }
}

// A checkpoint's master of other parameters would restore those.
TEST(ContiguousOptimizer, MasterOfAnotherParameterIsIgnored) {
  const Tensors ours = {parameter({6}, at::kBFloat16)};
  ContiguousOptimizer first(ours, SGDOptions{.lr = 1e-4, .momentum = 0.9});
  ours[0].grad().fill_(1);
  first.step({.zero_grad = true});
  const auto kept = first.state();
  const auto same = copies(ours);
  ContiguousOptimizer second(same, SGDOptions{.lr = 1e-4, .momentum = 0.9});
  second.set_state(kept);
  EXPECT_TRUE(second.state()[0].tensors.back().second.equal(kept[0].tensors.back().second));
  const Tensors other = {at::ones({6}, at::kBFloat16).set_requires_grad(true)};
  ContiguousOptimizer third(other, SGDOptions{.lr = 1e-4, .momentum = 0.9});
  third.set_state(kept);
  EXPECT_TRUE(third.state()[0].tensors.back().second.equal(at::ones({6})));
  EXPECT_TRUE(third.state()[0].tensors.front().second.equal(kept[0].tensors.front().second));
}

TEST(ContiguousOptimizer, StepIncrementsParameterVersions) {
  const auto one = parameter({3});
  ContiguousOptimizer optimizer(Tensors{one}, SGDOptions{.lr = 1});
  const auto loss = one.pow(2).sum();
  one.grad().fill_(1);
  optimizer.step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(ContiguousOptimizer, StateIsRestored) {
  const auto ours = random_parameters(10);
  const auto theirs = copies(ours);
  ContiguousOptimizer first(ours, RMSpropOptions{.momentum = 0.9, .centered = true});
  add_gradients(ours, theirs, 1);
  first.step({.zero_grad = true});
  const auto resumed = copies(ours);
  ContiguousOptimizer second(resumed, RMSpropOptions{.momentum = 0.9, .centered = true});
  second.set_state(first.state());
  add_gradients(ours, resumed, 2);
  first.step();
  second.step();
  EXPECT_EQ(most_ulps(ours, resumed, resumed), 0);

  auto wrong = first.state();
  wrong[0].tensors[1].second = at::zeros({77});
  EXPECT_THAT(refusal([&] { second.set_state(wrong); }),
              AllOf(HasSubstr("the state momentum_buffer of parameter 0"), HasSubstr("[77]")));
  wrong = first.state();
  wrong[3].tensors.pop_back();
  EXPECT_THAT(refusal([&] { second.set_state(wrong); }),
              HasSubstr("the state grad_avg of parameter 3 is missing"));
  wrong.pop_back();
  EXPECT_THAT(refusal([&] { second.set_state(wrong); }), HasSubstr("states of 11 parameters"));
}

// A file contains groups with their own options, no state of frozen parameters, and masters of half
// precision.
TEST(ContiguousOptimizer, TrainingResumesFromAFileOfGroupsAndMasters) {
  const stbench::test::TemporaryFolder folder;
  const auto file = (folder.path() / "optimizer").string();
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    auto ours = random_parameters(11);
    for (auto& one : ours) one = one.detach().to(dtype).set_requires_grad(true);
    ours[1].set_requires_grad(false);
    const auto grouped = [](const Tensors& all, double first_rate, double second_rate) {
      return std::vector<ParameterGroup>{
          {Tensors(all.begin(), all.begin() + 5), {}, AdamWOptions{.lr = first_rate}},
          {Tensors(all.begin() + 5, all.end()), {}, AdamWOptions{.lr = second_rate, .weight_decay = 0.3}}};
    };
    ContiguousOptimizer first(grouped(ours, 0.1, 0.02), AdamWOptions{});
    for (unsigned step = 0; step < 3; ++step) {
      add_gradients(ours, copies(ours), step);
      first.step({.zero_grad = true});
    }
    first.save(file);
    const auto resumed = copies(ours);
    ContiguousOptimizer second(grouped(resumed, 0.5, 0.5), AdamWOptions{});
    second.load(file);
    EXPECT_EQ(std::get<AdamWOptions>(second.options(0)).lr, 0.1);
    EXPECT_EQ(std::get<AdamWOptions>(second.options(1)).lr, 0.02);
    EXPECT_EQ(std::get<AdamWOptions>(second.options(1)).weight_decay, 0.3);
    for (unsigned step = 3; step < 6; ++step) {
      add_gradients(ours, resumed, step);
      first.step({.zero_grad = true});
      second.step({.zero_grad = true});
    }
    for (std::size_t k = 0; k < ours.size(); ++k) EXPECT_TRUE(ours[k].equal(resumed[k])) << dtype << " " << k;
    const auto states = first.state();
    for (std::size_t k = 0; k < ours.size(); ++k)
      for (std::size_t s = 0; s < states[k].tensors.size(); ++s)
        EXPECT_TRUE(states[k].tensors[s].second.equal(second.state()[k].tensors[s].second))
            << dtype << " " << k;
  }
}

TEST(ContiguousOptimizer, FilesOfOthersAreRefused) {
  const stbench::test::TemporaryFolder folder;
  const auto file = (folder.path() / "optimizer").string();
  const auto refused = [&](const Tensors& tensors, const UpdateOptions& options) {
    ContiguousOptimizer optimizer(tensors, options);
    return refusal([&] { optimizer.load(file); });
  };
  const Tensors one = {parameter({3})};
  ContiguousOptimizer(one, AdamWOptions{}).save(file);
  EXPECT_THAT(refused(one, AdamOptions{}),
              HasSubstr("the file is of AdamW, the optimizer is Adam; give it AdamWOptions"));
  EXPECT_THAT(refused({parameter({3}), parameter({2})}, AdamWOptions{}),
              HasSubstr("group 0 has 1 parameters in the file and 2 here"));
  const std::vector<ParameterGroup> groups{{{parameter({3})}, {}, {}}, {{parameter({2})}, {}, {}}};
  ContiguousOptimizer grouped(groups, AdamWOptions{});
  EXPECT_THAT(refusal([&] { grouped.load(file); }),
              HasSubstr("the file has 1 parameter groups, the optimizer 2"));
  for (const c10::IValue& other : {c10::IValue(7), c10::IValue(c10::List<std::int64_t>({1, 2}))}) {
    const auto bytes = torch::jit::pickle_save(other);
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_THAT(refused(one, AdamWOptions{}), HasSubstr("holds no state_dict() of an optimizer"));
  }
}

/// As in Python's state_dict(): a parameter has a state from its first step on.
TEST(ContiguousOptimizer, FileHasNoStateBeforeTheFirstStep) {
  const stbench::test::TemporaryFolder folder;
  const auto file = (folder.path() / "optimizer").string();
  const Tensors one = {parameter({3})};
  ContiguousOptimizer optimizer(one, AdamWOptions{});
  const auto saved_states = [&] {
    optimizer.save(file);
    const auto text = stbench::test::content_of(file);
    const auto whole = torch::jit::pickle_load({text.begin(), text.end()});
    return whole.toGenericDict().at("state").toGenericDict().size();
  };
  EXPECT_EQ(saved_states(), 0U);
  one[0].grad().fill_(1);
  optimizer.step();
  EXPECT_EQ(saved_states(), 1U);
}

TEST(ContiguousOptimizer, RefusedFileChangesNothing) {
  const stbench::test::TemporaryFolder folder;
  const auto file = (folder.path() / "optimizer").string();
  const Tensors ours = {parameter({3})};
  const Tensors others = {parameter({4})};
  ContiguousOptimizer writer(others, AdamOptions{.lr = 0.5});
  others[0].grad().fill_(1);
  writer.step();
  writer.save(file);
  ContiguousOptimizer optimizer(ours, AdamOptions{.lr = 0.1});
  ours[0].grad().fill_(1);
  optimizer.step();
  const auto before = optimizer.state();
  EXPECT_THAT(refusal([&] { optimizer.load(file); }), HasSubstr("exp_avg of parameter 0 is Float [4]"));
  EXPECT_EQ(std::get<AdamOptions>(optimizer.options()).lr, 0.1);
  EXPECT_EQ(optimizer.state()[0].steps, 1);
  EXPECT_TRUE(optimizer.state()[0].tensors[0].second.equal(before[0].tensors[0].second));
}

}  // namespace
}  // namespace speedtorch
