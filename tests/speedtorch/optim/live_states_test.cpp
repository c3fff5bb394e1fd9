#include "speedtorch/optim/live_states.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <memory>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/optim/state.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Optimizer = torch::optim::Optimizer;
using Names = std::vector<std::string>;

at::Tensor weight() { return at::ones({4, 3}).requires_grad_(true); }

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(const at::Tensor&)> make;
  Names states;
};

template <class Made, class... Options>
Kind kind(std::string name, Names states, Options... options) {
  return {
      std::move(name),
      [=](const at::Tensor& parameter) { return std::make_unique<Made>(std::vector{parameter}, options...); },
      std::move(states)};
}

std::vector<Kind> kinds() {
  namespace theirs = torch::optim;
  const Names adam{"exp_avg", "exp_avg_sq"};
  const Names amsgrad{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {kind<theirs::Adam>("torch::optim::Adam", adam),
          kind<theirs::Adam>("torch::optim::Adam", amsgrad, theirs::AdamOptions().amsgrad(true)),
          kind<theirs::AdamW>("torch::optim::AdamW", amsgrad, theirs::AdamWOptions().amsgrad(true)),
          kind<theirs::Adagrad>("torch::optim::Adagrad", {"sum"}),
          kind<theirs::RMSprop>("torch::optim::RMSprop", {"square_avg", "momentum_buffer", "grad_avg"},
                                theirs::RMSpropOptions().momentum(0.9).centered(true)),
          kind<theirs::RMSprop>("torch::optim::RMSprop", {"square_avg", "grad_avg"},
                                theirs::RMSpropOptions().centered(true)),
          kind<theirs::SGD>("torch::optim::SGD", {"momentum_buffer"}, theirs::SGDOptions(0.1).momentum(0.9)),
          kind<theirs::SGD>("torch::optim::SGD", {}, theirs::SGDOptions(0.1)),
          kind<Adamax>("speedtorch::optim::Adamax", {"exp_avg", "exp_inf"}, AdamaxOptions{}),
          kind<Rprop>("speedtorch::optim::Rprop", {"prev", "step_size"}, RpropOptions{})};
}

TEST(LiveStates, TablesAreThoseOfTheOptimizer) {
  for (const auto& [name, make, states] : kinds()) {
    auto parameter = weight();
    const auto optimizer = make(parameter);
    const LiveStates live(*optimizer, parameter);
    EXPECT_EQ(live.optimizer_name(), name);
    EXPECT_EQ(state_names(live.options()), states) << name;
    EXPECT_EQ(live.counts_rows(), name.starts_with("speedtorch")) << name;
    parameter.mutable_grad() = at::ones({4, 3});
    optimizer->step();
    ASSERT_EQ(live.tables().size(), states.size()) << name;
    for (const auto& table : live.tables()) EXPECT_EQ(table.sizes(), parameter.sizes()) << name;
    const bool counts = name != "torch::optim::SGD";
    EXPECT_EQ(live.steps(), counts ? std::optional<std::int64_t>(1) : std::nullopt) << name;
  }
}

// The first step uses states that were set before it.
TEST(LiveStates, StepUsesStatesThatWereSet) {
  for (const auto& [name, make, states] : kinds()) {
    auto given = weight();
    auto grown = weight();
    const auto optimizer = make(given);
    const auto other = make(grown);
    const auto step = [](Optimizer& one, at::Tensor& parameter, double gradient) {
      parameter.mutable_grad() = at::full({4, 3}, gradient, at::kFloat);
      one.step();
    };
    step(*other, grown, 0.5);
    LiveStates live(*optimizer, given);
    std::vector<at::Tensor> tables;
    for (const auto& table : LiveStates(*other, grown).tables()) tables.push_back(table.clone());
    live.set(tables, 1, {});
    given.detach().copy_(grown.detach());
    step(*optimizer, given, -0.25);
    step(*other, grown, -0.25);
    EXPECT_TRUE(at::equal(given, grown)) << name;
    for (std::size_t k = 0; k < tables.size(); ++k)
      EXPECT_TRUE(at::equal(live.tables().at(k), LiveStates(*other, grown).tables().at(k)))
          << name << " " << k;
  }
}

TEST(LiveStates, ParameterIsFoundByIdentity) {
  auto first = weight();
  auto second = at::ones({7, 2}).requires_grad_(true);
  torch::optim::Adam optimizer(
      {torch::optim::OptimizerParamGroup({first}),
       torch::optim::OptimizerParamGroup({second}, std::make_unique<torch::optim::AdamOptions>(
                                                       torch::optim::AdamOptions(0.5).amsgrad(true)))});
  const LiveStates live(optimizer, second);
  EXPECT_EQ(std::get<AdamOptions>(live.options()).lr, 0.5);
  EXPECT_EQ(state_names(live.options()).size(), 3U);
  second.mutable_grad() = at::ones({7, 2});
  optimizer.step();
  EXPECT_EQ(live.tables().at(0).sizes(), second.sizes());
  EXPECT_TRUE(LiveStates(optimizer, first).tables().empty());
  EXPECT_EQ(refusal<OptimizerError>([&] { LiveStates(optimizer, first.clone()); }),
            "torch::optim::Adam does not have the parameter (Float [4, 3]); pass the same tensor that "
            "the optimizer was given");
  EXPECT_THAT(refusal<OptimizerError>([&] { LiveStates(optimizer, at::Tensor()); }),
              HasSubstr("(undefined)"));
}

TEST(LiveStates, UnknownOptimizersAreRefused) {
  auto parameter = weight();
  torch::optim::LBFGS optimizer({parameter});
  const auto text = refusal<OptimizerError>([&] { LiveStates(optimizer, parameter); });
  EXPECT_THAT(text, HasSubstr("torch::optim::LBFGS is not supported"));
  EXPECT_THAT(text, HasSubstr("Adagrad"));
}

}  // namespace
}  // namespace speedtorch::optim
