// Tests the arguments, errors and states of SparseRows. Its numbers are tested in sparse_rows_test.py against
// Python torch, and in tests/speedtorch/kernels/steps/sparse_step_test.cpp against plain loops.

#include "speedtorch/optim/sparse_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/rows/duplicates.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/refusal.h"

namespace speedtorch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

at::Tensor some_rows() { return at::arange(12, at::kFloat).reshape({4, 3}); }

/// A few steps of the same rows and gradients, on any memory.
void step_some(SparseRows& rows, int from, int to) {
  for (int step = from; step < to; ++step) {
    const auto index = at::remainder(at::arange(step, step + 6), 4);
    rows.step(index, at::full({6, 3}, 0.5 + step, at::kFloat));
  }
}

TEST(SparseRows, NamesAndInitialStatesEqualTorchs) {
  EXPECT_THAT(state_names(AdamOptions{.amsgrad = true}),
              ElementsAre("exp_avg", "exp_avg_sq", "max_exp_avg_sq"));
  EXPECT_THAT(state_names(RMSpropOptions{.momentum = 0.9, .centered = true}),
              ElementsAre("square_avg", "momentum_buffer", "grad_avg"));
  EXPECT_THAT(state_names(SGDOptions{}), ElementsAre());
  const SparseRows adagrad(some_rows(), AdagradOptions{.initial_accumulator_value = 0.25});
  EXPECT_EQ(adagrad.states().at(0).name, "sum");
  EXPECT_TRUE(at::equal(adagrad.states().at(0).table, at::full({4, 3}, 0.25, at::kFloat)));
  const SparseRows rprop(some_rows(), RpropOptions{.lr = 0.5});
  EXPECT_TRUE(at::equal(rprop.states().at(0).table, at::zeros({4, 3})));
  EXPECT_TRUE(at::equal(rprop.states().at(1).table, at::full({4, 3}, 0.5, at::kFloat)));
}

TEST(SparseRows, ResultsAreEqualInEveryHostPlacement) {
  SparseRows plain(some_rows(), AdamOptions{.lr = 0.1}, TableOptions{.placement = Placement::libtorch});
  step_some(plain, 0, 5);
  EXPECT_FALSE(at::equal(plain.table(), some_rows()));
  for (const auto placement : {Placement::pageable, Placement::hugepage, Placement::mapped}) {
    const TableOptions home{.placement = placement};
    const auto table = Table::from_array(some_rows(), home);
    SparseRows rows(table.host_tensor(), AdamOptions{.lr = 0.1}, home);
    step_some(rows, 0, 5);
    EXPECT_TRUE(at::equal(table.host_tensor(), plain.table())) << to_string(placement);
    EXPECT_TRUE(at::equal(rows.states().at(1).table, plain.states().at(1).table)) << to_string(placement);
  }
}

TEST(SparseRows, ResumedRunIsBitwiseEqual) {
  for (const auto count : {StepCount::shared, StepCount::by_row}) {
    SparseRows whole(some_rows(), AdamWOptions{.lr = 0.1, .amsgrad = true}, {}, count);
    step_some(whole, 0, 9);
    SparseRows first(some_rows(), AdamWOptions{.lr = 0.1, .amsgrad = true}, {}, count);
    step_some(first, 0, 4);
    std::vector<at::Tensor> states;
    for (const auto& state : first.states()) states.push_back(state.table.clone());
    const auto row_steps = first.row_steps().defined() ? first.row_steps().to(at::kInt) : at::Tensor();
    SparseRows second(first.table().clone(), AdamWOptions{.lr = 0.1, .amsgrad = true}, states, row_steps);
    second.set_steps(first.steps());
    step_some(second, 4, 9);
    EXPECT_TRUE(at::equal(second.table(), whole.table()));
    EXPECT_EQ(second.steps(), 9);
    if (row_steps.defined()) {
      EXPECT_TRUE(at::equal(second.row_steps(), whole.row_steps().to(at::kInt)));
    }
  }
}

TEST(SparseRows, RunResumesFromTheFolderOfItsStates) {
  const stbench::test::TemporaryFolder folder;
  const TableOptions home{.placement = Placement::mapped, .file = (folder.path() / "states").string()};
  SparseRows whole(some_rows(), AdamOptions{.lr = 0.1}, TableOptions{}, StepCount::by_row);
  step_some(whole, 0, 9);
  at::Tensor table = some_rows();
  {
    SparseRows first(table, AdamOptions{.lr = 0.1}, home, StepCount::by_row);
    step_some(first, 0, 4);
  }
  const auto in_file = [&](const char* name) {
    return Table::from_file(home.file + "/" + name, {.placement = Placement::mapped}, Access::read_write)
        .host_tensor();
  };
  SparseRows second(table, AdamOptions{.lr = 0.1}, {in_file("exp_avg.npy"), in_file("exp_avg_sq.npy")},
                    in_file("row_steps.npy"));
  step_some(second, 4, 9);
  EXPECT_TRUE(at::equal(table, whole.table()));
  EXPECT_TRUE(at::equal(second.row_steps(), whole.row_steps()));
  EXPECT_THAT(refusal<FileError>([&] { SparseRows(some_rows(), AdamOptions{}, home); }),
              HasSubstr("'states' cannot be created"));
}

TEST(SparseRows, TheirStatesGoWhereTheScopeSays) {
  const stbench::test::TemporaryFolder folder;
  const DefaultTableOptionsGuard scope(
      {.placement = Placement::mapped, .file = (folder.path() / "here").string()});
  const SparseRows rows(some_rows(), AdagradOptions{});
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "here/sum.npy"));
}

TEST(SparseRows, StepCountsAndIncrementsVersions) {
  SparseRows rows(some_rows(), AdagradOptions{}, {}, StepCount::by_row);
  const auto before = rows.table()._version();
  rows.step(at::arange(2), at::ones({2, 3}));
  EXPECT_GT(rows.table()._version(), before);
  EXPECT_GT(rows.states().at(0).table._version(), 0);
  const auto kept = rows.table().clone();
  rows.step(at::empty({0}, at::kLong), at::empty({0, 3}));
  EXPECT_EQ(rows.steps(), 2);
  EXPECT_TRUE(at::equal(rows.table(), kept));
  EXPECT_TRUE(at::equal(rows.row_steps(), at::tensor({1, 1, 0, 0}, at::kLong)));
}

TEST(SparseRows, StepUsesTheLatestOptions) {
  SparseRows rows(at::zeros({3}), SGDOptions{.lr = 1, .momentum = 0.5});
  rows.step(at::arange(2), at::ones({2}));
  rows.set_options(SGDOptions{.lr = 2, .momentum = 0.25});
  rows.step(at::arange(2), at::ones({2}));
  EXPECT_TRUE(at::equal(rows.table(), at::tensor({-3.5F, -3.5F, 0.F})));
  EXPECT_THAT(refusal<OptionError>([&] { rows.set_options(SGDOptions{.lr = 1}); }),
              HasSubstr("the same states"));
  EXPECT_THAT(refusal<OptionError>([&] { rows.set_options(AdagradOptions{}); }),
              HasSubstr("the same optimizer"));
  EXPECT_THAT(refusal<OptionError>([&] { rows.set_options(SGDOptions{.lr = -1, .momentum = 0.5}); }),
              HasSubstr("lr is -1"));
}

TEST(SparseRows, RowsMayHaveAnyShape) {
  SparseRows deep(at::zeros({5, 2, 3}), SGDOptions{.lr = 1});
  deep.step(at::tensor({1, 1, 4, 1}, at::kInt).reshape({2, 2}), at::ones({4, 2, 3}));
  EXPECT_TRUE(at::equal(deep.table().select(0, 1), at::full({2, 3}, -3., at::kFloat)));
  EXPECT_EQ(deep.table().sum().item<float>(), -4 * 6);
  SparseRows flat(at::zeros({5}), SGDOptions{.lr = 1});
  flat.step(at::arange(5), at::ones({5}));
  EXPECT_EQ(flat.table().sum().item<float>(), -5);
  SparseRows empty(at::zeros({5, 0}), AdamOptions{});
  EXPECT_NO_THROW(empty.step(at::arange(5), at::zeros({5, 0})));
}

TEST(SparseRows, MismatchedArgumentsAreRefused) {
  SparseRows rows(some_rows(), AdamOptions{});
  const auto step = [&](const at::Tensor& index, const at::Tensor& grad) {
    return refusal<ShapeError>([&] { rows.step(index, grad); });
  };
  EXPECT_EQ(
      step(at::arange(2), at::ones({2, 4})),
      "table Float [4, 3], index Long [2] and grad Float [2, 4] do not fit: grad needs one contiguous row "
      "of the table's shape and dtype per index");
  EXPECT_THAT(step(at::arange(3), at::ones({2, 3})), HasSubstr("index Long [3] and grad Float [2, 3]"));
  EXPECT_THAT(step(at::arange(2), at::ones({2, 3}, at::kDouble)), HasSubstr("grad Double [2, 3]"));
  EXPECT_THAT(step(at::arange(2), at::ones({3, 2}).t()), HasSubstr("with strides [1, 2]"));
  EXPECT_THAT(step(at::ones({2}), at::ones({2, 3})), HasSubstr("the index is Float [2]"));
  EXPECT_EQ(step(at::Tensor(), at::ones({2, 3})), "the index is undefined");
  EXPECT_EQ(step(at::arange(2), at::Tensor()), "grad is undefined");
  EXPECT_EQ(step(at::arange(4), rows.table()), "the table and grad overlap; each needs its own memory");
  EXPECT_EQ(step(at::arange(4), rows.states().at(1).table),
            "the state exp_avg_sq and grad overlap; each needs its own memory");
  const auto indexed_by = [&](const at::Tensor& written) {
    return step(written.view(at::kInt).flatten().slice(0, 0, 4), at::ones({4, 3}));
  };
  EXPECT_EQ(indexed_by(rows.table()), "the table and the index overlap; each needs its own memory");
  EXPECT_EQ(indexed_by(rows.states().at(0).table),
            "the state exp_avg and the index overlap; each needs its own memory");
  EXPECT_THAT(refusal<IndexError>([&] {
                rows.step(at::tensor({0, 4}), at::ones({2, 3}));
              }),
              HasSubstr("index 4 at position 1 names no row: the table's rows are 0 to 3"));
  EXPECT_TRUE(at::equal(rows.table(), some_rows()));
  EXPECT_EQ(rows.steps(), 0);
}

TEST(SparseRows, UnsupportedTablesAreRefused) {
  const auto make = [](const at::Tensor& table, std::vector<at::Tensor> states, at::Tensor steps = {}) {
    return refusal<ShapeError>(
        [&] { SparseRows(table, AdagradOptions{}, std::move(states), std::move(steps)); });
  };
  EXPECT_THAT(make(at::ones({4, 3}, at::kInt), {}), HasSubstr("the table is Int [4, 3]"));
  EXPECT_EQ(make(at::Tensor(), {}), "the table is undefined");
  EXPECT_EQ(make(some_rows(), {at::Tensor()}), "the state sum is undefined");
  EXPECT_THAT(make(at::ones({}), {}), HasSubstr("at least one dimension is needed"));
  EXPECT_THAT(make(some_rows().t(), {}), HasSubstr("a contiguous"));
  EXPECT_THAT(make(some_rows(), {}), HasSubstr("has 1 states for each element; 0 were given"));
  EXPECT_THAT(make(some_rows(), {at::ones({3, 4})}),
              HasSubstr("the state sum is Float [3, 4], the table Float [4, 3]"));
  EXPECT_THAT(make(some_rows(), {at::ones({4, 3})}, at::ones({5}, at::kLong)),
              HasSubstr("row_steps is Long [5], the table Float [4, 3]"));
  const auto table = some_rows();
  EXPECT_EQ(make(table, {table}), "the table and the state sum overlap; each needs its own memory");
  EXPECT_THAT(refusal<OptionError>([] { SparseRows(some_rows(), AdamOptions{.eps = -1}); }),
              HasSubstr("Adam: eps is -1"));
}

TEST(SparseRows, ErrorNamesSupportedDevices) {
  const auto elsewhere = at::ones({4, 3}, at::kMeta);
  EXPECT_EQ(refusal<PlacementError>([&] { SparseRows(elsewhere, SGDOptions{}); }),
            "the table is on meta; SparseRows works on cpu tensors and on cuda tensors");
  SparseRows rows(some_rows(), SGDOptions{});
  EXPECT_THAT(refusal<PlacementError>([&] { rows.step(at::arange(4), elsewhere); }),
              HasSubstr("the table is on cpu, grad on meta"));
  EXPECT_THAT(refusal<PlacementError>([] {
                SparseRows(some_rows(), AdamOptions{},
                           TableOptions{.placement = Placement::device, .device = at::kCUDA});
              }),
              HasSubstr("states in device memory, and the table is on cpu"));
}

TEST(SparseRows, ErrorNamesTheStrides) {
  SparseRows rows(at::ones({7, 3}), SGDOptions{.lr = 1});
  const auto index = at::arange(4);
  EXPECT_THAT(
      refusal<ShapeError>([&] {
        rows.step(index, at::ones({3, 4}).t());
      }),
      testing::AllOf(HasSubstr("grad is Float [4, 3] with strides [1, 4]"), HasSubstr("call contiguous()")));
  EXPECT_THAT(refusal<ShapeError>([&] {
                rows.step(at::arange(8).slice(0, 0, 8, 2), at::ones({4, 3}));
              }),
              HasSubstr("the index is Long [4] with strides [2]"));
}

/// Rows next to the boundary of 2^31 elements, and the last row, of a sparse file. The reference is a small
/// table of these rows.
TEST(SparseRows, RowsBeyond31BitsAreStepped) {
  constexpr std::int64_t dim = 512, boundary = (std::int64_t{1} << 31) / dim, rows = boundary + 3;
  const stbench::test::TemporaryFolder folder;
  const auto table =
      MappedFile::create((folder.path() / "table").string(), {rows, dim}, at::kFloat, {}, Space::sparse);
  const auto sum =
      MappedFile::create((folder.path() / "sum").string(), {rows, dim}, at::kFloat, {}, Space::sparse);
  const AdagradOptions options{.lr = 0.1};
  SparseRows large(table->array(), options, {sum->array()});
  const auto all = at::tensor({std::int64_t{0}, boundary - 1, boundary, boundary + 1, rows - 1}, at::kLong);
  auto expected = at::zeros({5, dim});
  SparseRows small(expected, options, {at::zeros({5, dim})});

  const auto places = at::tensor({4, 0, 3, 1, 3}, at::kLong);  // not the row at the boundary itself
  const auto index = all.index_select(0, places);
  const auto values = at::arange(5 * dim, at::kFloat).view({5, dim}).add_(1);
  for (int step = 0; step < 3; ++step) {
    large.step(index, values);
    small.step(places, values);
  }
  auto target = table->array();
  scatter_rows(target, index, values, Duplicates::accumulate);
  scatter_rows(expected, places, values, Duplicates::accumulate);
  auto found = at::empty({5, dim}), state = at::empty({5, dim});
  gather_rows(*table, all, found);
  gather_rows(*sum, all, state);
  EXPECT_TRUE(at::equal(found, expected));
  EXPECT_TRUE(at::equal(state, small.states().at(0).table));
  EXPECT_FALSE(found[2].any().item<bool>());
  EXPECT_TRUE(found.index_select(0, places).ne(0).all().item<bool>());
}

}  // namespace
}  // namespace speedtorch
