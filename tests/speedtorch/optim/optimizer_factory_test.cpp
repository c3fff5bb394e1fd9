// Tests the arguments, errors and files of OptimizerFactory. optimizer_factory_test.py tests its numbers.

#include "speedtorch/optim/optimizer_factory.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <fstream>
#include <type_traits>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/files/npy.h"
#include "speedtorch/optim/optimizers.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/host_placements.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 10;

at::Tensor rows_of(std::vector<std::int64_t> rows) { return at::tensor(rows, at::kLong); }

/// A weight with its optimizer.
struct Model {
  at::Tensor weight = at::zeros({1, 3}).requires_grad_(true);
  torch::optim::Adam adam{{weight}, torch::optim::AdamOptions(0.1)};

  /// A step with gradients of ones; the weight gets this many rows.
  void step(torch::optim::Optimizer& optimizer, std::int64_t rows) {
    weight.set_data(at::zeros({rows, 3}));
    weight.mutable_grad() = at::ones({rows, 3});
    optimizer.step();
  }
};

at::Tensor table_of(const OptimizerFactory& factory, std::size_t k) {
  return factory.tables().at(k).table.host_tensor();
}

TEST(OptimizerFactory, WritesTheRowsOfTheBatchAndNoOthers) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  EXPECT_EQ(states.bytes(), 2 * kRows * 3 * 4);
  states.before_forward_pass(WeightRows(rows_of({7, 2})));
  model.step(model.adam, 2);
  states.after_optimizer_step();
  auto wanted = at::zeros({kRows, 3});
  wanted.index_fill_(0, rows_of({2, 7}), 1 - 0.9);
  EXPECT_TRUE(at::allclose(table_of(states, 0), wanted));
  EXPECT_EQ(states.steps(), 1);
}

TEST(OptimizerFactory, BatchesMayGrowAndShrinkAndBeEmpty) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  for (const std::int64_t rows : {2, 7, 0, 10, 1}) {
    states.before_forward_pass(WeightRows(at::arange(rows)));
    model.step(model.adam, rows);
    states.after_optimizer_step(at::arange(rows).to(at::kInt));
  }
  EXPECT_EQ(states.steps(), 5);
  const auto often = table_of(states, 0)[0][0].item<float>();
  EXPECT_FLOAT_EQ(often, 1 - 0.9F * 0.9F * 0.9F * 0.9F);
}

TEST(OptimizerFactory, InitialStatesEqualTorchs) {
  Model model;
  torch::optim::Adagrad adagrad({model.weight},
                                torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.25));
  for (const auto placement : host_placements) {
    const OptimizerFactory sums(adagrad, model.weight, kRows, {.placement = placement});
    EXPECT_TRUE(at::equal(table_of(sums, 0), at::full({kRows, 3}, 0.25F)));
  }
  optim::Rprop rprop({model.weight}, {.lr = 0.5});
  const OptimizerFactory sizes(rprop, model.weight, kRows);
  EXPECT_EQ(sizes.tables().at(1).name, "step_size");
  EXPECT_TRUE(at::equal(table_of(sizes, 1), at::full({kRows, 3}, 0.5F)));
}

// Torch's SGD takes the first gradient as momentum, before dampening starts.
TEST(OptimizerFactory, TheFirstStepOfLibtorchsSgdIsNotDampened) {
  Model model;
  torch::optim::SGD sgd({model.weight}, torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.5));
  OptimizerFactory states(sgd, model.weight, kRows);
  for (const auto& rows : {rows_of({1, 3}), rows_of({3, 4})}) {
    states.before_forward_pass(WeightRows(rows));
    model.step(sgd, 2);
    states.after_optimizer_step();
  }
  const auto buffer = table_of(states, 0).select(1, 0);
  EXPECT_TRUE(at::allclose(buffer, at::tensor({0., 1., 0., 1.4, 0.5, 0., 0., 0., 0., 0.}, at::kFloat)));
}

TEST(OptimizerFactory, AStepWithoutAGradientLeavesTheStates) {
  Model model;
  torch::optim::SGD sgd({model.weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (torch::optim::Optimizer* const optimizer :
       {static_cast<torch::optim::Optimizer*>(&sgd), static_cast<torch::optim::Optimizer*>(&model.adam)}) {
    OptimizerFactory states(*optimizer, model.weight, kRows);
    states.before_forward_pass(WeightRows(rows_of({1})));
    model.weight.mutable_grad() = at::Tensor();
    optimizer->step();
    states.after_optimizer_step();
    EXPECT_EQ(states.steps(), 0);
    EXPECT_TRUE(at::equal(table_of(states, 0), at::zeros({kRows, 3})));
  }
}

TEST(OptimizerFactory, FindsTheVariableOfAModelByName) {
  struct Net : torch::nn::Module {
    at::Tensor other = register_parameter("other", at::ones({2, 2}));
    at::Tensor weight = register_parameter("weight", at::ones({2, 5}));
  } net;
  torch::optim::Adam optimizer(std::vector{net.weight});  // a subset, in another order than the model's
  const OptimizerFactory states(optimizer, net, "weight", kRows);
  EXPECT_EQ(table_of(states, 0).sizes(), at::IntArrayRef({kRows, 5}));
  EXPECT_EQ(refusal<OptimizerError>([&] { OptimizerFactory(optimizer, net, "bias", kRows); }),
            "the model has no parameter 'bias'; it has other, weight");
  EXPECT_THAT(refusal<OptimizerError>([&] { OptimizerFactory(optimizer, net, "other", kRows); }),
              HasSubstr("does not have the parameter (Float [2, 2])"));
}

TEST(OptimizerFactory, RefusesRowsThatItCannotTake) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  const auto before = [&](const at::Tensor& rows) { states.before_forward_pass(WeightRows(rows)); };
  EXPECT_EQ(refusal<IndexError>([&] {
              before(rows_of({0, kRows}));
            }),
            "index 10 at position 1 names no row: the table's rows are 0 to 9");
  EXPECT_THAT(refusal<DuplicateError>([&] {
                before(rows_of({5, 1, 2, 1}));
              }),
              HasSubstr("row 1 is named at positions 1 and 3"));
  EXPECT_THAT(refusal<ShapeError>([&] { before(at::ones({2})); }), HasSubstr("rows is Float [2]"));
  EXPECT_THAT(refusal<ShapeError>([&] {
                before(rows_of({1, 2}).reshape({1, 2}));
              }),
              HasSubstr("Long [1, 2]"));
  EXPECT_TRUE(model.adam.state().empty());
  EXPECT_THAT(refusal<OrderError>([&] { states.after_optimizer_step(); }),
              HasSubstr("without before_forward_pass()"));
}

/// A ModelFactory holds the distinct rows of a batch in ascending order. States in the batch's order would
/// belong to other rows. The reference is an Adagrad step of the whole table, which does not move rows
/// without gradients.
TEST(OptimizerFactory, RowsComeFromTheModelFactoryInItsOrder) {
  auto weight = at::zeros({1, 3}).requires_grad_(true), whole = at::zeros({kRows, 3}).requires_grad_(true);
  torch::optim::Adagrad adagrad({weight}, torch::optim::AdagradOptions(0.1)),
      wanted({whole}, torch::optim::AdagradOptions(0.1));
  ModelFactory vectors(weight, kRows);
  vectors.zeros_init();
  OptimizerFactory states(adagrad, weight, kRows);
  const auto scale = at::arange(1, 1 + 3 * kRows, at::kFloat).view({kRows, 3});
  for (const auto& batch : {rows_of({7, 2, 9, 2}), rows_of({9, 0, 7, 1}), rows_of({2, 1, 0, 9})}) {
    vectors.before_forward_pass(batch);
    states.before_forward_pass(vectors);
    weight.mutable_grad() = scale.index_select(0, vectors.rows());
    adagrad.step();
    vectors.after_optimizer_step();
    states.after_optimizer_step();
    whole.mutable_grad() =
        at::zeros({kRows, 3}).index_copy(0, vectors.rows(), scale.index_select(0, vectors.rows()));
    wanted.step();
  }
  EXPECT_TRUE(at::allclose(vectors.host_copy(), whole.detach()));
  static_assert(!std::is_convertible_v<at::Tensor, WeightRows>,
                "a batch's indices are not the rows that the weight holds");

  Model other;
  OptimizerFactory of_other(other.adam, other.weight, kRows);
  EXPECT_THAT(refusal<OptimizerError>([&] { of_other.before_forward_pass(vectors); }),
              HasSubstr("another parameter"));
}

TEST(OptimizerFactory, ErrorNamesTheRowThatDiffers) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  states.before_forward_pass(WeightRows(rows_of({1, 2, 5})));
  EXPECT_THAT(refusal<OrderError>([&] {
                states.after_optimizer_step(rows_of({1, 4, 5}));
              }),
              HasSubstr("position 1 is row 4 here and was row 2"));
  EXPECT_THAT(refusal<OrderError>([&] { states.after_optimizer_step(rows_of({1})); }),
              HasSubstr("1 rows here and 3 there"));
  EXPECT_THAT(refusal<OrderError>([&] { states.before_forward_pass(WeightRows(rows_of({1}))); }),
              HasSubstr("the 3 rows"));
}

// Otherwise the states of a completed step would be lost.
TEST(OptimizerFactory, RowsArePutBackOrGivenUpBeforeTheNextAreTaken) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  states.before_forward_pass(WeightRows(rows_of({1, 2})));
  model.step(model.adam, 2);
  EXPECT_THAT(refusal<OrderError>([&] { states.before_forward_pass(WeightRows(rows_of({3}))); }),
              HasSubstr("call after_optimizer_step() or skip_optimizer_step() first"));
  states.skip_optimizer_step();
  EXPECT_EQ(states.steps(), 0);
  EXPECT_TRUE(at::equal(table_of(states, 0), at::zeros({kRows, 3})));
  states.before_forward_pass(WeightRows(rows_of({3})));
  model.step(model.adam, 1);
  states.after_optimizer_step();
  EXPECT_EQ(states.steps(), 1);
}

TEST(OptimizerFactory, RowsOfAnOptimizerWithoutStatesAreCheckedToo) {
  Model model;
  torch::optim::SGD sgd({model.weight}, torch::optim::SGDOptions(0.1));
  OptimizerFactory states(sgd, model.weight, kRows);
  EXPECT_THROW(states.before_forward_pass(WeightRows(rows_of({kRows}))), IndexError);
  EXPECT_THROW(states.before_forward_pass(WeightRows(rows_of({1, 1}))), DuplicateError);
  OptimizerFactory over_none(sgd, model.weight, std::vector<Table>{});
  EXPECT_THROW(over_none.before_forward_pass(WeightRows(rows_of({1, 1}))), DuplicateError);
  EXPECT_THROW(over_none.before_forward_pass(WeightRows(rows_of({-1}))), IndexError);
  for (auto* const each : {&states, &over_none}) {
    each->before_forward_pass(WeightRows(rows_of({4, 2})));
    model.step(sgd, 2);
    each->after_optimizer_step();
  }
}

/// Three steps of overlapping rows.
void step_some(Model& model, torch::optim::Optimizer& optimizer, OptimizerFactory& states) {
  for (const auto& rows : {rows_of({1, 3}), rows_of({3, 9, 0}), rows_of({1})}) {
    states.before_forward_pass(WeightRows(rows));
    model.step(optimizer, rows.numel());
    states.after_optimizer_step();
  }
}

TEST(OptimizerFactory, EachStateMayBeInAPlacementOfItsOwn) {
  Model model, mixed_model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  step_some(model, model.adam, states);
  const auto zeros = [](Placement placement) {
    return Table::filled({kRows, 3}, at::kFloat, Zeros{}, {.placement = placement});
  };
  OptimizerFactory mixed(mixed_model.adam, mixed_model.weight,
                         {zeros(Placement::hugepage), zeros(Placement::mapped)});
  EXPECT_EQ(mixed.tables().at(1).name, "exp_avg_sq");
  step_some(mixed_model, mixed_model.adam, mixed);
  EXPECT_GT(table_of(states, 1).sum().item<float>(), 0);
  for (const std::size_t k : {0U, 1U}) EXPECT_TRUE(at::equal(table_of(mixed, k), table_of(states, k)));
}

TEST(OptimizerFactory, TrainingResumesFromTheFilesOfItsTables) {
  TemporaryFolder folder;
  const auto home = (folder.path() / "states").string();
  Model model, first_model, second_model;
  OptimizerFactory whole(model.adam, model.weight, kRows);
  step_some(model, model.adam, whole);
  step_some(model, model.adam, whole);
  {
    OptimizerFactory first(first_model.adam, first_model.weight, kRows,
                           {.placement = Placement::mapped, .file = home});
    step_some(first_model, first_model.adam, first);
  }
  const auto in_file = [&](const char* name, Access access) {
    return Table::from_file(home + "/" + name, {.placement = Placement::mapped}, access);
  };
  OptimizerFactory second(
      second_model.adam, second_model.weight,
      {in_file("exp_avg.npy", Access::read_write), in_file("exp_avg_sq.npy", Access::read_write)});
  second.set_steps(3);
  step_some(second_model, second_model.adam, second);
  EXPECT_EQ(second.steps(), 6);
  EXPECT_TRUE(at::equal(second_model.weight, model.weight));
  for (const std::size_t k : {0U, 1U}) EXPECT_TRUE(at::equal(table_of(second, k), table_of(whole, k)));
  EXPECT_THAT(refusal<FileError>([&] {
                OptimizerFactory(model.adam, model.weight,
                                 {in_file("exp_avg.npy", Access::read_only),
                                  in_file("exp_avg_sq.npy", Access::read_write)});
              }),
              HasSubstr("'exp_avg.npy' is open read_only"));
  EXPECT_THAT(refusal<OptionError>([&] { second.set_steps(-1); }), HasSubstr("steps is -1"));
}

TEST(OptimizerFactory, TablesThatDoNotFitTheStatesAreRefused) {
  Model model;
  const auto table = [](at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
    return Table::filled(sizes, dtype, Zeros{});
  };
  const auto over = [&](std::vector<Table> tables) {
    return refusal<ShapeError>([&] { OptimizerFactory(model.adam, model.weight, std::move(tables)); });
  };
  EXPECT_EQ(over({table({kRows, 3})}), "torch::optim::Adam needs 2 tables; 1 were given");
  EXPECT_EQ(over({table({kRows, 3}), table({kRows + 1, 3})}),
            "the table of exp_avg_sq is Float [11, 3]; Float [10, 3] is needed");
  EXPECT_EQ(over({table({kRows, 4}), table({kRows, 4})}),
            "the table of exp_avg is Float [10, 4]; Float [10, 3] is needed");
  EXPECT_THAT(over({table({kRows, 3}, at::kDouble), table({kRows, 3})}), HasSubstr("Double [10, 3]"));
  const auto one = table({kRows, 3});
  EXPECT_EQ(over({one, one}), "the tables of exp_avg and exp_avg_sq are the same; each needs its own memory");
  optim::Adam counting({model.weight});
  EXPECT_EQ(refusal<ShapeError>([&] {
              OptimizerFactory(counting, model.weight,
                               {table({kRows, 3}), table({kRows, 3}), table({kRows, 1}, at::kLong)},
                               StepCount::by_row);
            }),
            "the table of row_steps is Long [10, 1]; Long [10] is needed");
}

TEST(OptimizerFactory, ItsTablesGoWhereTheScopeSays) {
  Model model;
  const DefaultTableOptionsGuard scope({.placement = Placement::pageable});
  const OptimizerFactory states(model.adam, model.weight, kRows);
  EXPECT_EQ(states.tables().at(0).table.placement(), Placement::pageable);
}

TEST(OptimizerFactory, RefusesToPutBackOtherRows) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  states.before_forward_pass(WeightRows(rows_of({1, 2})));
  model.step(model.adam, 2);
  for (const auto& others : {rows_of({2, 1}), rows_of({1}), rows_of({1, 3})})
    EXPECT_THAT(refusal<OrderError>([&] { states.after_optimizer_step(others); }),
                HasSubstr("names other rows"));
  EXPECT_TRUE(at::equal(table_of(states, 0), at::zeros({kRows, 3})));
  EXPECT_THAT(refusal<OrderError>([&] { states.save("never"); }), HasSubstr("rows are in the optimizer"));
  states.after_optimizer_step(rows_of({1, 2}));
  EXPECT_THAT(refusal<OrderError>([&] {
                states.after_optimizer_step(rows_of({1, 2}));
              }),
              HasSubstr("without before_forward_pass()"));
}

TEST(OptimizerFactory, RowsAreCopied) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  auto rows = rows_of({1, 2});
  states.before_forward_pass(WeightRows(rows));
  rows.fill_(7);
  model.step(model.adam, 2);
  states.after_optimizer_step(rows_of({1, 2}));
  EXPECT_GT(table_of(states, 0)[2][0].item<float>(), 0);
  EXPECT_EQ(table_of(states, 0)[7][0].item<float>(), 0);
}

TEST(OptimizerFactory, StatesThatNoLongerFitTheRowsAreRefused) {
  Model model;
  OptimizerFactory states(model.adam, model.weight, kRows);
  states.before_forward_pass(WeightRows(rows_of({1, 2})));
  model.adam.state().clear();
  EXPECT_THAT(refusal<OptimizerError>([&] { states.after_optimizer_step(); }), HasSubstr("are missing"));
  model.step(model.adam, 5);
  EXPECT_EQ(refusal<OptimizerError>([&] { states.after_optimizer_step(); }),
            "the state exp_avg of torch::optim::Adam is not that of the 2 rows of before_forward_pass()");
  states.skip_optimizer_step();
  states.before_forward_pass(WeightRows(rows_of({1, 2})));
  auto& kept = *model.adam.state().at(model.weight.unsafeGetTensorImpl());
  auto& second = static_cast<torch::optim::AdamParamState&>(kept).exp_avg_sq();
  second = second.to(at::kDouble);
  EXPECT_EQ(refusal<OptimizerError>([&] { states.after_optimizer_step(); }),
            "the state exp_avg_sq of torch::optim::Adam is not that of the 2 rows of before_forward_pass()");
  states.skip_optimizer_step();
  static_cast<torch::optim::AdamOptions&>(model.adam.param_groups().front().options()).amsgrad(true);
  EXPECT_THAT(refusal<OptimizerError>([&] { states.before_forward_pass(WeightRows(rows_of({1}))); }),
              HasSubstr("options of torch::optim::Adam have changed"));
}

TEST(OptimizerFactory, FailedConstructionLeavesNothing) {
  Model model;
  TemporaryFolder folder;
  const auto home = folder.path() / "states";
  const TableOptions mapped{.placement = Placement::mapped, .file = home.string()};
  torch::optim::LBFGS lbfgs({model.weight});
  EXPECT_THAT(refusal<OptimizerError>([&] { OptimizerFactory(lbfgs, model.weight, kRows, mapped); }),
              HasSubstr("LBFGS is not supported"));
  EXPECT_THAT(refusal<OptimizerError>(
                  [&] { OptimizerFactory(model.adam, model.weight, kRows, mapped, StepCount::by_row); }),
              HasSubstr("torch::optim::Adam has one count of steps for all rows"));
  const auto scalar = at::ones({}).requires_grad_(true);
  torch::optim::Adam of_scalar(std::vector{scalar});
  EXPECT_THAT(refusal<ShapeError>([&] { OptimizerFactory(of_scalar, scalar, kRows, mapped); }),
              HasSubstr("the parameter is a scalar"));
  EXPECT_THAT(refusal<ShapeError>([&] { OptimizerFactory(model.adam, model.weight, -1, mapped); }),
              HasSubstr("-1"));
  EXPECT_FALSE(std::filesystem::exists(home));
  EXPECT_TRUE(model.adam.state().empty());
}

TEST(OptimizerFactory, MappedTablesLieInOneFolder) {
  Model model;
  TemporaryFolder folder;
  const auto home = (folder.path() / "states").string();
  OptimizerFactory states(model.adam, model.weight, kRows, {.placement = Placement::mapped, .file = home});
  states.before_forward_pass(WeightRows(rows_of({4})));
  model.step(model.adam, 1);
  states.after_optimizer_step();
  const auto file = Table::from_file(home + "/exp_avg_sq.npy").host_tensor();
  EXPECT_TRUE(at::equal(file, table_of(states, 1)));
  EXPECT_GT(file.sum().item<float>(), 0);
  EXPECT_THAT(refusal<FileError>([&] {
                OptimizerFactory(model.adam, model.weight, kRows,
                                 {.placement = Placement::mapped, .file = home});
              }),
              HasSubstr("'states' cannot be created"));
  EXPECT_TRUE(std::filesystem::exists(home + "/exp_avg.npy"));
}

TEST(OptimizerFactory, SaveIsAtomic) {
  Model model;
  TemporaryFolder folder;
  const OptimizerFactory states(model.adam, model.weight, kRows);
  const auto kept = (folder.path() / "kept").string();
  states.save(kept);
  EXPECT_THAT(refusal<FileError>([&] { states.save(kept); }), HasSubstr("'kept' cannot be created"));
  EXPECT_THAT(refusal<FileError>([&] { states.save(kept + "/none/kept"); }), HasSubstr("cannot be created"));
  const auto empty = (folder.path() / "empty").string();
  std::filesystem::create_directory(empty);
  EXPECT_THAT(refusal<FileError>([&] { states.save(empty); }), HasSubstr("'empty' cannot be created"));
  EXPECT_TRUE(std::filesystem::is_empty(empty));
  std::filesystem::remove(empty);
  std::vector<std::string> left;
  for (const auto& each : std::filesystem::directory_iterator(folder.path()))
    left.push_back(each.path().filename());
  EXPECT_EQ(left, std::vector<std::string>{"kept"});
}

TEST(OptimizerFactory, LoadRefusesFilesThatDoNotFit) {
  Model model;
  TemporaryFolder folder;
  const auto kept = (folder.path() / "kept").string();
  OptimizerFactory(model.adam, model.weight, kRows + 1).save(kept);
  OptimizerFactory states(model.adam, model.weight, kRows);
  states.before_forward_pass(WeightRows(rows_of({4})));
  model.step(model.adam, 1);
  states.after_optimizer_step();
  const auto before = table_of(states, 0).clone();
  EXPECT_EQ(refusal<ShapeError>([&] { states.load(kept); }),
            "'exp_avg.npy' is Float [11, 3]; Float [10, 3] is needed");
  EXPECT_THAT(refusal<FileError>([&] { states.load(folder.path().string()); }), HasSubstr("optimizer.txt"));
  ASSERT_EQ(::mkfifo((folder.path() / "optimizer.txt").c_str(), 0600), 0);
  EXPECT_EQ(refusal<FileError>([&] { states.load(folder.path().string()); }),
            "'optimizer.txt' is not a regular file and cannot be read");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  EXPECT_EQ(refusal<FileError>([&] { states.load((folder.path() / "loop").string()); }),
            "'row_steps.npy' cannot be looked for: Too many levels of symbolic links");
  optim::Adam counting({model.weight});
  OptimizerFactory counted(counting, model.weight, kRows, {}, StepCount::by_row);
  counted.save((folder.path() / "counted").string());
  EXPECT_EQ(refusal<OptimizerError>([&] { states.load((folder.path() / "counted").string()); }),
            "'counted' was saved with counts by row, and this is without");
  OptimizerFactory(model.adam, model.weight, kRows).save((folder.path() / "fits").string());
  std::filesystem::remove(folder.path() / "fits/steps.npy");
  (void)Table::from_array(
      at::full({1}, -5, at::kLong),
      {.placement = Placement::mapped, .file = (folder.path() / "fits/steps.npy").string()});
  EXPECT_EQ(refusal<OptimizerError>([&] { states.load((folder.path() / "fits").string()); }),
            "'steps.npy' says -5 steps; 0 or more is needed");
  std::ofstream((folder.path() / "fits/exp_avg_sq.npy").string()) << "no array";
  EXPECT_THAT(refusal<NpyError>([&] { states.load((folder.path() / "fits").string()); }),
              HasSubstr("exp_avg_sq.npy"));
  EXPECT_TRUE(at::equal(table_of(states, 0), before));
  EXPECT_EQ(states.steps(), 1);
}

TEST(OptimizerFactory, LoadRefusesAnotherOptimizer) {
  Model model;
  TemporaryFolder folder;
  const auto saved = [&](torch::optim::Optimizer& optimizer, const char* name) {
    const auto path = (folder.path() / name).string();
    OptimizerFactory states(optimizer, model.weight, kRows);
    states.set_steps(7);
    states.save(path);
    return path;
  };
  torch::optim::AdamW decayed({model.weight});
  torch::optim::Adam bounded({model.weight}, torch::optim::AdamOptions(0.1).amsgrad(true));
  optim::Adam ours({model.weight});
  const auto adamw = saved(decayed, "adamw"), amsgrad = saved(bounded, "amsgrad");
  const auto adam = saved(ours, "adam");
  OptimizerFactory states(model.adam, model.weight, kRows);
  EXPECT_EQ(
      refusal<OptimizerError>([&] { states.load(adamw); }),
      "'adamw' has the states of 'AdamW: exp_avg, exp_avg_sq', and this is 'Adam: exp_avg, exp_avg_sq'");
  EXPECT_EQ(refusal<OptimizerError>([&] { states.load(amsgrad); }),
            "'amsgrad' has the states of 'Adam: exp_avg, exp_avg_sq, max_exp_avg_sq', and this is 'Adam: "
            "exp_avg, exp_avg_sq'");
  EXPECT_EQ(states.steps(), 0);
  states.load(adam);  // LibTorch's and ours step alike
  EXPECT_EQ(states.steps(), 7);
}

TEST(OptimizerFactory, LoadRefusesWhileRowsAreInTheOptimizer) {
  Model model;
  TemporaryFolder folder;
  const auto kept = (folder.path() / "kept").string();
  OptimizerFactory states(model.adam, model.weight, kRows);
  states.save(kept);
  states.before_forward_pass(WeightRows(rows_of({4})));
  model.step(model.adam, 1);
  EXPECT_THAT(refusal<OrderError>([&] { states.load(kept); }), HasSubstr("rows are in the optimizer"));
  states.after_optimizer_step();
  EXPECT_GT(table_of(states, 1)[4].min().item<float>(), 0) << "the rows were not given up";
  EXPECT_EQ(states.steps(), 1);
  states.load(kept);
  EXPECT_EQ(table_of(states, 1).abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace speedtorch
