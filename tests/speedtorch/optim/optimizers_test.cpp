// Tests the arguments, errors and archives of the optimizers. optimizers_test.py compares their numbers with
// Python torch.

#include "speedtorch/optim/optimizers.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/serialize/archive.h>

#include <sstream>
#include <vector>

#include "speedtorch/error.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using torch::optim::OptimizerParamGroup;

at::Tensor parameter(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::arange(c10::multiply_integers(sizes), dtype).reshape(sizes).requires_grad_(true);
}

const ParamState& state_of(const torch::optim::Optimizer& optimizer, const at::Tensor& parameter) {
  return static_cast<const ParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
}

TEST(Optimizers, CallTheClosureOnceWithGradients) {
  auto weight = parameter({3});
  Adamax optimizer({weight}, {.lr = 0.1});
  int calls = 0;
  const auto loss = optimizer.step([&] {
    ++calls;
    optimizer.zero_grad();
    const auto now = (weight * weight).sum();
    now.backward();
    return now;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(loss.item<float>(), 5);
  EXPECT_FALSE(at::equal(weight.detach(), at::arange(3, at::kFloat)));
  EXPECT_EQ(state_of(optimizer, weight).step, 1);
}

// The gradient of half the squared length is the parameter itself, so every optimizer shortens it.
TEST(Optimizers, AllTenMakeALossSmaller) {
  const auto trained = [](auto optimizer, at::Tensor& weight) {
    for (int step = 0; step < 20; ++step) {
      weight.mutable_grad() = weight.detach().clone();
      optimizer.step();
    }
    return weight.norm().template item<double>();
  };
  const auto before = parameter({4, 5}).norm().item<double>();
  const auto check = [&]<class Optimizer>() {
    auto weight = parameter({4, 5});
    EXPECT_LT(trained(Optimizer({weight}), weight), before) << Optimizer({weight}).name();
  };
  check.operator()<Adam>();
  check.operator()<AdamW>();
  check.operator()<SparseAdam>();
  check.operator()<Adagrad>();
  check.operator()<RMSprop>();
  check.operator()<SGD>();
  check.operator()<Adadelta>();
  check.operator()<Adamax>();
  check.operator()<ASGD>();
  check.operator()<Rprop>();
}

TEST(Optimizers, GroupsHaveTheirOwnRatesAndSchedulersSetThem) {
  auto first = at::zeros({2}).requires_grad_(true);
  auto second = at::zeros({2}).requires_grad_(true);
  const std::vector groups{
      OptimizerParamGroup({first}),
      OptimizerParamGroup({second}, std::make_unique<GroupOptions<SGDOptions>>(SGDOptions{.lr = 0.5}))};
  SGD optimizer(groups, {.lr = 2});
  first.mutable_grad() = at::ones({2});
  second.mutable_grad() = at::ones({2});
  optimizer.step();
  EXPECT_TRUE(at::equal(first.detach(), at::full({2}, -2.F)));
  EXPECT_TRUE(at::equal(second.detach(), at::full({2}, -0.5F)));
  EXPECT_EQ(optimizer.param_groups().at(0).options().get_lr(), 2);
  for (auto& group : optimizer.param_groups()) group.options().set_lr(1);
  optimizer.step();
  EXPECT_TRUE(at::equal(first.detach(), at::full({2}, -3.F)));
  EXPECT_TRUE(at::equal(second.detach(), at::full({2}, -1.5F)));
}

TEST(Optimizers, ParametersOfAnyLayoutStepAlike) {
  const auto values = at::arange(24, at::kFloat).reshape({2, 3, 4});
  const auto grad = values.sin();
  auto plain = values.clone().requires_grad_(true);
  auto transposed = values.clone().permute({2, 0, 1}).contiguous().permute({1, 2, 0}).requires_grad_(true);
  auto spread = at::zeros({2, 3, 8}).slice(2, 0, 8, 2).copy_(values).requires_grad_(true);
  ASSERT_FALSE(transposed.is_contiguous());
  ASSERT_FALSE(spread.is_non_overlapping_and_dense());
  std::vector<at::Tensor> all{plain, transposed, spread};
  RMSprop optimizer(all, {.momentum = 0.5, .centered = true});
  for (int step = 0; step < 3; ++step) {
    for (auto& each : all) each.mutable_grad() = grad + step;
    optimizer.step();
  }
  for (const auto& each : all) {
    EXPECT_TRUE(at::equal(each, plain)) << each.strides();
    EXPECT_TRUE(at::equal(state_of(optimizer, each).states.at(2).table,
                          state_of(optimizer, plain).states.at(2).table));
  }
  EXPECT_FALSE(at::equal(plain.detach(), values));
}

TEST(Optimizers, ScalarsAndEmptyTensorsAreStepped) {
  auto scalar = at::full({}, 2.F).requires_grad_(true);
  auto nothing = at::empty({0, 4}).requires_grad_(true);
  SGD optimizer({scalar, nothing}, {.lr = 1, .momentum = 0.5});
  scalar.mutable_grad() = at::full({}, 0.5F);
  nothing.mutable_grad() = at::empty({0, 4});
  optimizer.step();
  optimizer.step();
  EXPECT_EQ(scalar.item<float>(), 0.75F);
  EXPECT_EQ(state_of(optimizer, nothing).step, 2);
}

TEST(Optimizers, StepIncrementsVersionsOfWrittenTensors) {
  auto weight = parameter({3});
  Rprop optimizer({weight});
  weight.mutable_grad() = at::ones({3});
  const auto before = weight._version();
  optimizer.step();
  EXPECT_GT(weight._version(), before);
  EXPECT_GT(state_of(optimizer, weight).states.at(1).table._version(), 0);
}

TEST(Optimizers, ArchivesUseTorchsNames) {
  auto weight = parameter({3});
  Adam optimizer({weight}, {.amsgrad = true});
  weight.mutable_grad() = at::ones({3});
  optimizer.step();
  torch::serialize::OutputArchive out;
  optimizer.save(out);
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  torch::serialize::InputArchive states;
  in.read("state", states);
  ASSERT_EQ(states.keys().size(), 1U);
  torch::serialize::InputArchive kept;
  states.read(states.keys().front(), kept);
  EXPECT_THAT(kept.keys(), UnorderedElementsAre("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"));
}

TEST(Optimizers, OptionSetLaterCreatesItsState) {
  auto weight = parameter({3});
  SGD optimizer({weight}, {.lr = 1});
  weight.mutable_grad() = at::ones({3});
  optimizer.step();
  EXPECT_TRUE(state_of(optimizer, weight).states.empty());
  static_cast<GroupOptions<SGDOptions>&>(optimizer.param_groups().front().options()).values.momentum = 0.5;
  optimizer.step();
  EXPECT_EQ(state_of(optimizer, weight).states.at(0).name, "momentum_buffer");
  EXPECT_TRUE(at::equal(state_of(optimizer, weight).states.at(0).table, at::ones({3})));
}

TEST(Optimizers, CountedRowsUseTheirOwnStep) {
  auto counted = at::zeros({2, 3}).requires_grad_(true);
  Adam optimizer({counted}, {.lr = 0.1});
  auto state = std::make_unique<ParamState>();
  state->row_steps = at::tensor({0, 9}, at::kLong);
  optimizer.state()[counted.unsafeGetTensorImpl()] = std::move(state);
  counted.mutable_grad() = at::ones({2, 3});
  optimizer.step();
  EXPECT_TRUE(at::equal(state_of(optimizer, counted).row_steps, at::tensor({1, 10}, at::kLong)));
  for (const std::int64_t row : {0, 1}) {
    auto alone = at::zeros({1, 3}).requires_grad_(true);
    Adam other({alone}, {.lr = 0.1});
    auto begun = std::make_unique<ParamState>();
    begun->step = row * 9;
    other.state()[alone.unsafeGetTensorImpl()] = std::move(begun);
    alone.mutable_grad() = at::ones({1, 3});
    other.step();
    EXPECT_TRUE(at::equal(alone.detach(), counted.detach().narrow(0, row, 1))) << row;
  }
}

TEST(Optimizers, InvalidOptionsAreRefused) {
  const auto made = [](AdamaxOptions options) {
    return refusal<OptionError>([&] { Adamax({parameter({2})}, options); });
  };
  EXPECT_EQ(made({.lr = -1}), "Adamax: lr is -1; 0 or more is needed");
  EXPECT_THAT(made({.betas = {1, 0.9}}), HasSubstr("betas.first is 1"));
  EXPECT_THAT(
      refusal<OptionError>([] {
        const std::vector groups{OptimizerParamGroup(
            {parameter({2})}, std::make_unique<GroupOptions<RpropOptions>>(RpropOptions{.etaminus = 2}))};
        Rprop optimizer(groups);
      }),
      HasSubstr("Rprop: etaminus is 2"));
  auto weight = parameter({2});
  Adadelta optimizer({weight});
  weight.mutable_grad() = at::ones({2});
  optimizer.param_groups().front().options().set_lr(-2);
  EXPECT_THAT(refusal<OptionError>([&] { optimizer.step(); }), HasSubstr("Adadelta: lr is -2"));
  EXPECT_TRUE(at::equal(weight.detach(), at::arange(2, at::kFloat)));
}

TEST(Optimizers, OptionsOfAnotherOptimizerAreRefused) {
  const std::vector groups{
      OptimizerParamGroup({parameter({2})}, std::make_unique<torch::optim::AdamOptions>(0.1))};
  EXPECT_EQ(refusal<OptimizerError>([&] { Adam optimizer(groups); }),
            "a parameter group of Adam has the options of another optimizer");
}

TEST(Optimizers, UnsupportedParametersAreRefused) {
  const auto stepped = [](at::Tensor weight, const at::Tensor& grad) {
    ASGD optimizer({weight});
    weight.mutable_grad() = grad;
    optimizer.step();
  };
  EXPECT_EQ(refusal<ShapeError>([&] { stepped(parameter({2}, at::kHalf), at::ones({2}, at::kHalf)); }),
            "a parameter is Half [2]; ASGD works on float32 and float64");
  EXPECT_EQ(refusal<PlacementError>([&] {
              const auto meta = at::ones({2}, at::TensorOptions(at::kMeta)).requires_grad_(true);
              stepped(meta, at::ones_like(meta));
            }),
            "a parameter is on meta; ASGD works on cpu tensors and on cuda tensors");
  const auto sparse = at::sparse_coo_tensor(at::arange(2).unsqueeze(0), at::ones({2, 3}), {4, 3});
  EXPECT_EQ(refusal<ShapeError>([&] {
              stepped(parameter({4, 3}), sparse);
            }),
            "ASGD takes dense gradients; SparseAdam and SparseRows take sparse ones");
  auto weight = parameter({4, 3});
  SparseAdam optimizer({weight});
  weight.mutable_grad() = weight.detach().to_sparse(2);
  EXPECT_THAT(refusal<ShapeError>([&] { optimizer.step(); }),
              HasSubstr("in its first dimension and in no other"));
}

// The first step of Adam is the rate, in the gradient's direction: of rows that are named twice, too.
TEST(Optimizers, SparseAdamStepsTheRowsOfASparseGradient) {
  auto weight = parameter({5, 3});
  const auto before = weight.detach().clone();
  SparseAdam optimizer({weight}, {.lr = 0.25});
  const auto index = at::tensor({4, 1, 4}, at::kLong).unsqueeze(0);
  weight.mutable_grad() = at::sparse_coo_tensor(index, at::ones({3, 3}), {5, 3});
  optimizer.step();
  for (std::int64_t row = 0; row < 5; ++row) {
    const double step = row == 4 || row == 1 ? 0.25 : 0;
    EXPECT_TRUE(at::allclose(before[row] - weight.detach()[row], at::full({3}, step))) << row;
  }
}

TEST(Optimizers, StatesOfOtherShapesAreRefused) {
  auto weight = parameter({3});
  Adagrad optimizer({weight});
  auto state = std::make_unique<ParamState>();
  state->states.push_back({"sum", at::ones({2})});
  optimizer.state()[weight.unsafeGetTensorImpl()] = std::move(state);
  weight.mutable_grad() = at::ones({3});
  EXPECT_EQ(refusal<ShapeError>([&] { optimizer.step(); }),
            "the state sum is Float [2] on cpu, its parameter Float [3]; both must be the same");
  auto counted = std::make_unique<ParamState>();
  counted->row_steps = at::ones({4}, at::kLong);
  optimizer.state()[weight.unsafeGetTensorImpl()] = std::move(counted);
  EXPECT_THAT(refusal<ShapeError>([&] { optimizer.step(); }),
              HasSubstr("row_steps is Long [4], the parameter Float [3]"));
}

}  // namespace
}  // namespace speedtorch::optim
