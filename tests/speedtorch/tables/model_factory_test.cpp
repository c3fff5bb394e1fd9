#include "speedtorch/tables/model_factory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <thread>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/rows/gather.h"
#include "speedtorch/tables/data_gadget.h"
#include "speedtorch/tables/memory_plan.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/host_placements.h"
#include "tests/speedtorch/infinity/stale_graph.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor parameter(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::zeros(sizes, dtype).requires_grad_();
}

void grow(at::Tensor& weight, double by) {
  const at::NoGradGuard unrecorded;
  weight.add_(by);
}

TEST(VariableTransformer, CountsThroughPositivesAndThenNegatives) {
  const auto both = variable_transformer(3, 2, 4);
  EXPECT_TRUE(at::equal(both.positives, at::arange(6, at::kLong).view({3, 2})));
  EXPECT_TRUE(at::equal(both.negatives, at::arange(6, 18, at::kLong).view({3, 4})));
  const auto alone = variable_transformer(5, 1);
  EXPECT_TRUE(at::equal(alone.positives, at::arange(5, at::kLong).view({5, 1})));
  EXPECT_FALSE(alone.negatives.defined());
  EXPECT_EQ(variable_transformer(0, 3).positives.sizes(), at::IntArrayRef({0, 3}));
  EXPECT_THROW(variable_transformer(-1, 3), ShapeError);
}

TEST(ModelFactory, EachInitIsItsFillInEveryPlacement) {
  for (const auto placement : host_placements) {
    ModelFactory factory(parameter({1, 3, 4}), 500, {.placement = placement});
    factory.zeros_init();
    EXPECT_EQ(factory.table().sizes(), at::IntArrayRef({500, 3, 4}));
    EXPECT_EQ(factory.table().placement(), placement);
    EXPECT_EQ(factory.host_copy().abs().sum().item<float>(), 0);
    factory.uniform_init(-2, 3, 7);
    const auto uniform = Table::filled({500, 3, 4}, at::kFloat, Uniform{-2.0, 3.0, 7}).tensor();
    EXPECT_TRUE(at::equal(factory.host_copy(), uniform));
    factory.normal_init(1, 0.5, 9);
    const auto normal = Table::filled({500, 3, 4}, at::kFloat, Normal{1, 0.5, 9}).tensor();
    EXPECT_TRUE(at::equal(factory.host_copy(), normal));
    EXPECT_GT(factory.host_copy()[499].abs().min().item<float>(), 0);  // the last row too
    factory.custom_init_by_pieces([](at::Tensor& rows, std::int64_t first) {
      rows.copy_(at::arange(first, first + rows.size(0)).view({-1, 1, 1}).expand(rows.sizes()));
    });
    EXPECT_TRUE(
        at::equal(factory.host_copy(), at::arange(500, at::kFloat).view({-1, 1, 1}).expand({500, 3, 4})));
  }
}

/// An init that needs the whole shape and draws from a generator: torch's own numbers, reproduced by the
/// seed.
TEST(ModelFactory, ACustomInitGetsTheWholeTableOnceOnTheCallingThread) {
  for (const auto placement : host_placements) {
    ModelFactory factory(parameter({1, 64}), 20'000, {.placement = placement});
    const auto xavier = [](at::Tensor& table) { torch::nn::init::xavier_uniform_(table); };
    at::manual_seed(5);
    factory.custom_init(xavier);
    at::manual_seed(5);
    const auto wanted = torch::nn::init::xavier_uniform_(at::empty({20'000, 64}));
    EXPECT_TRUE(at::equal(factory.host_copy(), wanted));
    int calls = 0;
    factory.custom_init([&, here = std::this_thread::get_id()](at::Tensor& table) {
      ++calls;
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_EQ(table.sizes(), at::IntArrayRef({20'000, 64}));
      table.normal_();
    });
    EXPECT_EQ(calls, 1);
  }
}

TEST(ModelFactory, TablesWithoutASeedDifferAndLibTorchsSeedRepeatsThem) {
  const auto made = [](bool normal) {
    ModelFactory factory(parameter({1, 8}), 50, {.placement = Placement::pageable});
    normal ? factory.normal_init(0, 1) : factory.uniform_init(0, 1);
    return factory.host_copy();
  };
  for (const bool normal : {false, true}) {
    at::manual_seed(3);
    const auto first = made(normal), second = made(normal);
    EXPECT_FALSE(at::any(first == second).item<bool>());
    at::manual_seed(3);
    EXPECT_TRUE(at::equal(made(normal), first));
    EXPECT_TRUE(at::equal(made(normal), second));
    const Fill fill = normal ? Fill(Normal{}) : Fill(Uniform{});
    EXPECT_FALSE(at::equal(Table::filled({50, 8}, at::kFloat, fill).tensor(),
                           Table::filled({50, 8}, at::kFloat, fill).tensor()));
  }
}

TEST(ModelFactory, NamesTheFirstRowThatDiffers) {
  ModelFactory factory(parameter({1, 4}), 10);
  factory.zeros_init();
  factory.before_forward_pass(at::tensor({3, 1, 4}, at::kLong));
  EXPECT_THAT(
      [&] {
        factory.after_optimizer_step(at::tensor({3, 2, 4}, at::kLong));
      },
      ThrowsMessage<OrderError>(HasSubstr("position 1 is row 2 here and was row 1")));
  EXPECT_THAT([&] { factory.zeros_init(); }, ThrowsMessage<OrderError>(HasSubstr("the 3 rows")));
}

TEST(ModelFactory, TheBatchsDistinctRowsAreInTheParameterOnce) {
  for (const auto placement : host_placements) {
    auto weight = parameter({2, 4});
    ModelFactory factory(weight, 100, {.placement = placement});
    factory.uniform_init(0, 1, 3);
    const auto table = factory.host_copy();
    const auto pos = at::tensor({7, 90, 7, 3}, at::kInt).view({2, 2});
    const auto neg = at::tensor({3, 3, 50, 7, 1, 0}, at::kLong).view({2, 3});
    factory.before_forward_pass(pos, neg);
    EXPECT_TRUE(at::equal(factory.rows(), at::tensor({0, 1, 3, 7, 50, 90}, at::kLong)));
    EXPECT_TRUE(at::equal(weight, table.index_select(0, factory.rows())));
    const auto& at_ = factory.positions();
    EXPECT_EQ(at_.positives.sizes(), pos.sizes());
    EXPECT_EQ(at_.negatives.sizes(), neg.sizes());
    EXPECT_TRUE(at::equal(weight.index({at_.positives}), table.index({pos.to(at::kLong)})));
    EXPECT_TRUE(at::equal(weight.index({at_.negatives}), table.index({neg})));

    grow(weight, 1);
    factory.after_optimizer_step(pos, neg);
    auto expected = table.clone();
    expected.index_add_(0, factory.rows(), at::ones({6, 4}));
    EXPECT_TRUE(at::equal(factory.host_copy(), expected));  // and no other row
  }
}

TEST(ModelFactory, WithoutDuplicatesSpeedTorchsConstantInputsLookRowsUp) {
  auto weight = parameter({1, 4});
  ModelFactory factory(weight, 100, {}, Duplicates::reject);
  factory.uniform_init(0, 1, 3);
  const auto table = factory.host_copy();
  const auto dummies = variable_transformer(2, 2, 3);
  for (const std::int64_t first : {60, 10}) {
    const auto pos = at::arange(first + 3, first - 1, -1).view({2, 2}),
               neg = at::arange(first + 4, first + 10);
    factory.before_forward_pass(pos, neg.view({2, 3}));
    EXPECT_TRUE(at::equal(factory.rows(), at::cat({pos.flatten(), neg})));
    EXPECT_TRUE(at::equal(factory.positions().positives, dummies.positives));
    EXPECT_TRUE(at::equal(factory.positions().negatives, dummies.negatives));
    EXPECT_TRUE(at::equal(weight.index({dummies.positives}), table.index({pos})));
    factory.skip_optimizer_step();
  }
  const auto before = weight.clone();
  EXPECT_THAT(
      [&] {
        factory.before_forward_pass(at::tensor({4, 2}), at::tensor({2}));
      },
      ThrowsMessage<DuplicateError>(HasSubstr("row 2 is named at positions 1 and 2")));
  EXPECT_TRUE(at::equal(weight, before));
  EXPECT_THROW(ModelFactory(weight, 100, {}, Duplicates::last), OptionError);
  EXPECT_THROW(ModelFactory(weight, 100, {}, Duplicates::none), OptionError);
}

TEST(ModelFactory, TheParameterStaysTheSameAndLosesItsGradient) {
  auto weight = parameter({1, 4});
  const auto* const identity = weight.unsafeGetTensorImpl();
  ModelFactory factory(weight, 100);
  factory.uniform_init(0, 1);
  at::Tensor loss;  // lives from step to step with its graph, as in many programs
  for (const std::int64_t rows : {5, 9, 2, 30, 1}) {
    factory.before_forward_pass(at::arange(rows));
    EXPECT_EQ(weight.unsafeGetTensorImpl(), identity);
    EXPECT_EQ(weight.sizes(), at::IntArrayRef({rows, 4}));
    EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
    EXPECT_FALSE(weight.grad().defined());
    loss = at::embedding(weight, factory.positions().positives).pow(2).sum();
    loss.backward();
    EXPECT_TRUE(at::allclose(weight.grad(), 2 * weight.detach()));
    factory.after_optimizer_step();
  }
}

/// The graph of an earlier batch must not get gradients from the rows of this one.
TEST(ModelFactory, AnOldGraphSeesThatItsRowsAreGone) {
  auto weight = parameter({1, 4});
  ModelFactory factory(weight, 100);
  factory.uniform_init(0, 1);
  factory.before_forward_pass(at::arange(5));
  const auto old = (weight * weight).sum();
  factory.after_optimizer_step();
  factory.before_forward_pass(at::arange(50, 55));
  EXPECT_THROW(old.backward(), c10::Error);
}

TEST(ModelFactory, AGraphOfTheTableNoticesWhatIsWrittenBack) {
  auto weight = parameter({1, 4});
  ModelFactory factory(weight, 100);
  factory.uniform_init(0, 1);
  factory.before_forward_pass(at::arange(5));
  grow(weight, 1);
  const auto notices = [&](auto write) {
    return test::write_is_noticed(factory.table().host_tensor(), write);
  };
  EXPECT_TRUE(notices([&] { factory.after_optimizer_step(); }));
  EXPECT_TRUE(notices([&] { factory.zeros_init(); }));
  EXPECT_FALSE(notices([&] { factory.before_forward_pass(at::arange(5)); }));
}

/// Meta is a device that needs no hardware and that no row reaches: the host's memory must not take its
/// place.
TEST(ModelFactory, PutsRowsWhereTheWeightIsOrNowhere) {
  auto weight = at::zeros({1, 4}, at::kMeta).requires_grad_();
  ModelFactory factory(weight, 10);
  factory.zeros_init();
  EXPECT_THAT(
      [&] {
        factory.before_forward_pass(at::tensor({1, 2}, at::kLong));
      },
      ThrowsMessage<PlacementError>(HasSubstr("meta")));
  EXPECT_EQ(weight.device(), at::kMeta);
}

TEST(ModelFactory, CallsOutOfOrderAreErrorsThatChangeNothing) {
  auto weight = parameter({1, 4});
  ModelFactory factory(weight, 10);
  const auto index = at::tensor({1, 2}, at::kLong);
  EXPECT_THAT([&] { factory.before_forward_pass(index); },
              ThrowsMessage<OrderError>(HasSubstr("zeros_init()")));
  EXPECT_THROW(factory.host_copy(), OrderError);
  factory.zeros_init();
  EXPECT_THROW(factory.after_optimizer_step(), OrderError);
  EXPECT_THROW(factory.after_optimizer_step(index), OrderError);
  EXPECT_THROW((void)factory.rows(), OrderError);
  EXPECT_THROW((void)factory.positions(), OrderError);
  EXPECT_THROW(factory.before_forward_pass(at::tensor({10}, at::kLong)), IndexError);
  EXPECT_THROW(factory.before_forward_pass(at::ones({2})), ShapeError);
  EXPECT_EQ(weight.size(0), 1);

  factory.before_forward_pass(index);
  EXPECT_THAT([&] { factory.before_forward_pass(index); },
              ThrowsMessage<OrderError>(HasSubstr("not written back")));
  grow(weight, 1);
  EXPECT_THAT(
      [&] {
        factory.after_optimizer_step(at::tensor({2, 1}, at::kLong));
      },
      ThrowsMessage<OrderError>(HasSubstr("not the indices of before_forward_pass()")));
  EXPECT_THROW(factory.after_optimizer_step(index, index), OrderError);
  EXPECT_EQ(factory.host_copy().sum().item<float>(), 0);
  factory.after_optimizer_step(index.to(at::kInt));
  EXPECT_EQ(factory.host_copy().sum().item<float>(), 8);
  EXPECT_THROW(factory.after_optimizer_step(), OrderError);

  factory.before_forward_pass(index);
  weight.set_data(at::zeros({3, 4}));
  EXPECT_THAT([&] { factory.after_optimizer_step(); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("[3, 4]"), HasSubstr("2 rows"))));
  factory.skip_optimizer_step();
  factory.before_forward_pass(index);
}

TEST(ModelFactory, RemembersTheIndicesWhateverBecomesOfTheirTensor) {
  ModelFactory factory(parameter({1, 4}), 10);
  factory.zeros_init();
  auto index = at::tensor({1, 2}, at::kLong);
  factory.before_forward_pass(index);
  index.fill_(7);
  EXPECT_THROW(factory.after_optimizer_step(index), OrderError);
  factory.after_optimizer_step(at::tensor({1, 2}, at::kLong));
}

/// Otherwise the rows of the old table would overwrite the new one.
TEST(ModelFactory, TheTableIsNotSetWhileRowsAreOut) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "t.npy").string();
  auto weight = parameter({1, 4});
  ModelFactory factory(weight, 10);
  factory.uniform_init(1, 2);
  factory.save_npy(path);
  const auto before = factory.host_copy();
  factory.before_forward_pass(at::arange(3));
  EXPECT_THAT([&] { factory.zeros_init(); }, ThrowsMessage<OrderError>(HasSubstr("not written back")));
  EXPECT_THROW(factory.load_npy(path), OrderError);
  EXPECT_TRUE(at::equal(factory.host_copy(), before));
  factory.skip_optimizer_step();
  factory.zeros_init();
}

TEST(ModelFactory, WorksOnAnExistingTable) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "t.npy").string();
  DataGadget::from_tensor(at::zeros({10, 4})).save(path);
  const auto in_file = [&](Access access) {
    return Table::from_file(path, {.placement = Placement::mapped}, access);
  };
  for (int run = 1; run <= 2; ++run) {  // the second resumes where the first ended
    auto weight = parameter({1, 4});
    ModelFactory factory(weight, in_file(Access::read_write));
    factory.before_forward_pass(at::tensor({7, 7, 2}, at::kLong));
    EXPECT_EQ(weight.sum().item<float>(), 8.F * static_cast<float>(run - 1));
    grow(weight, 1);
    factory.after_optimizer_step();
  }
  const auto rows = Table::from_file(path).host_tensor().sum(1);
  EXPECT_TRUE(at::equal(rows, at::tensor({0, 0, 8, 0, 0, 0, 0, 8, 0, 0}, at::kFloat)));
  EXPECT_THAT(
      [&] {
        ModelFactory(parameter({1, 4}), in_file(Access::read_only));
      },
      ThrowsMessage<FileError>(HasSubstr("'t.npy' is open read_only")));
  EXPECT_THAT(
      [&] {
        ModelFactory(parameter({1, 5}), in_file(Access::read_write));
      },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("Float [1, 5]"), HasSubstr("Float [10, 4]"))));
  EXPECT_THROW(ModelFactory(parameter({1, 4}, at::kDouble), in_file(Access::read_write)), ShapeError);
}

TEST(ModelFactory, NeedsAParameter) {
  EXPECT_THROW(ModelFactory(at::Tensor(), 10), ShapeError);
  EXPECT_THROW(ModelFactory(at::scalar_tensor(1.0), 10), ShapeError);
  EXPECT_THAT(
      [&] {
        ModelFactory(at::ones({3, 2}, at::kLong), 10);
      },
      ThrowsMessage<ShapeError>(HasSubstr("Long [3, 2]")));
  EXPECT_THROW(ModelFactory(parameter({3, 2}) * 2, 10), ShapeError);
  ModelFactory halves(parameter({3, 2}, at::kHalf), 10);
  halves.normal_init(0, 1);
  EXPECT_EQ(halves.table().dtype(), at::kHalf);
}

TEST(ModelFactory, SavesAndLoadsBothFormats) {
  const TemporaryFolder folder;
  const auto npy = (folder.path() / "t.npy").string(), torch = (folder.path() / "t.pt").string();
  ModelFactory from(parameter({1, 4}), 50);
  from.normal_init(0, 1, 5);
  from.save_npy(npy);
  from.save_torch(torch);
  for (const auto placement : host_placements) {
    ModelFactory first(parameter({1, 4}), 50, {.placement = placement});
    first.load_npy(npy);  // creates the table
    EXPECT_EQ(first.table().placement(), placement);
    EXPECT_TRUE(at::equal(first.host_copy(), from.host_copy()));
    first.zeros_init();
    first.load_torch(torch);  // sets it
    EXPECT_TRUE(at::equal(first.host_copy(), from.host_copy()));
  }
  ModelFactory wider(parameter({1, 5}), 50);
  for (const auto& load : {&ModelFactory::load_npy, &ModelFactory::load_torch})
    EXPECT_THAT([&] { (wider.*load)(load == &ModelFactory::load_npy ? npy : torch); },
                ThrowsMessage<ShapeError>(AllOf(HasSubstr("[50, 5]"), HasSubstr("[50, 4]"))));
}

/// A loss that looks rows up, some of them often: sum over k of weights[k] row(index[k])^2.
at::Tensor loss_of(const at::Tensor& rows, const at::Tensor& weights) {
  return (rows.pow(2) * weights).sum();
}

struct Training {
  at::Tensor swapped, whole;
};

/// The same steps twice: on the whole table with LibTorch's dense optimizer, and by swapping rows.
Training train(Placement placement, bool adagrad, const std::function<at::Tensor()>& next_index) {
  constexpr std::int64_t rows = 40, dim = 6;
  auto weight = parameter({1, dim}), whole = parameter({rows, dim});
  ModelFactory factory(weight, rows, {.placement = placement});
  factory.normal_init(0, 1, 11);
  whole.set_data(factory.host_copy());
  torch::optim::SGD sgd({weight}, 0.1), whole_sgd({whole}, 0.1);
  torch::optim::Adagrad ada({weight}, 0.1), whole_ada({whole}, 0.1);
  OptimizerFactory sums(ada, weight, rows, {.placement = placement});
  for (int step = 0; step < 30; ++step) {
    const auto index = next_index();
    const auto weights = at::randint(1, 4, {index.numel(), 1}, at::kFloat);
    factory.before_forward_pass(index);
    if (adagrad) sums.before_forward_pass(factory);
    loss_of(at::embedding(weight, factory.positions().positives), weights).backward();
    adagrad ? ada.step() : sgd.step();
    if (adagrad) sums.after_optimizer_step();
    factory.after_optimizer_step();

    whole.mutable_grad().reset();
    loss_of(whole.index_select(0, index), weights).backward();
    adagrad ? whole_ada.step() : whole_sgd.step();
  }
  return {factory.host_copy(), whole.detach()};
}

TEST(ModelFactory, TrainsAsTheWholeTableDoes) {
  for (const auto placement : host_placements) {
    for (const bool adagrad : {false, true}) {
      const auto unique = [] { return at::randperm(40, at::kLong).slice(0, 0, 8).contiguous(); };
      const auto [swapped, whole] = train(placement, adagrad, unique);
      EXPECT_TRUE(at::equal(swapped, whole)) << to_string(placement) << ' ' << adagrad;
    }
  }
}

/// Unlike in SpeedTorch, repeated rows get the sum of their gradients.
TEST(ModelFactory, DuplicatesTrainAsTheWholeTableDoes) {
  for (const bool adagrad : {false, true}) {
    const auto repeated = [] { return at::randint(0, 10, {24}, at::kLong); };
    const auto [swapped, whole] = train(Placement::hugepage, adagrad, repeated);
    EXPECT_TRUE(at::equal(swapped, whole)) << adagrad << (swapped - whole).abs().max();
  }
}

/// The tables of one model in several placements, as the plan assigns them, train like tables in one
/// placement.
TEST(ModelFactory, MixedPlacementsTrainEqually) {
  const auto run = [](const std::vector<Placement>& placements) {
    std::vector<at::Tensor> weights{parameter({1, 8}), parameter({1, 8}), parameter({1, 8})};
    std::vector<ModelFactory> factories;
    for (std::size_t t = 0; t < 3; ++t) {
      factories.emplace_back(weights[t], 100, TableOptions{.placement = placements[t]});
      factories[t].normal_init(0, 0.5, t);
    }
    torch::optim::SGD sgd(weights, 0.05);
    for (std::int64_t step = 0; step < 20; ++step) {
      std::vector<at::Tensor> rows;
      for (std::size_t t = 0; t < 3; ++t) {
        factories[t].before_forward_pass(
            at::arange(30).mul(step + 3 + static_cast<std::int64_t>(t)).remainder(100));
        rows.push_back(at::embedding(weights[t], factories[t].positions().positives));
      }
      (rows[0] * rows[1] * rows[2]).sum().backward();
      sgd.step();
      for (auto& factory : factories) factory.after_optimizer_step();
    }
    std::vector<at::Tensor> tables;
    for (const auto& factory : factories) tables.push_back(factory.host_copy());
    return at::stack(tables);
  };
  std::vector<PlannedTable> tables;
  for (const char* name : {"a", "b", "c"})
    tables.push_back(
        {.name = name, .rows = 100, .dim = 8, .wanted = {Placement::hugepage, Placement::mapped}});
  const auto plan = plan_memory(tables, {.host = 6400, .file = 1 << 20});  // two of three in memory
  const std::vector<Placement> planned{plan.placement_of("a"), plan.placement_of("b"),
                                       plan.placement_of("c")};
  EXPECT_EQ(planned, (std::vector<Placement>{Placement::hugepage, Placement::hugepage, Placement::mapped}));
  const auto one = run({Placement::libtorch, Placement::libtorch, Placement::libtorch});
  EXPECT_TRUE(at::equal(run(planned), one));
  EXPECT_TRUE(at::equal(run({Placement::pageable, Placement::mapped, Placement::hugepage}), one));
}

}  // namespace
}  // namespace speedtorch
