/// Tests SparseRows, the optimizers and OptimizerFactory on a GPU. The numbers equal the host's bit for bit
/// if the host fuses (AVX2 and above). Skipped without a GPU.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/kernels/isa.h"
#include "speedtorch/optim/optimizer_factory.h"
#include "speedtorch/optim/optimizers.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/rows/rows.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/gpu_fixture.h"
#include "tests/speedtorch/kernels/steps/every_update.h"

namespace speedtorch {
namespace {

constexpr std::int64_t kRows = 3000;
constexpr std::int64_t kColumns = 33;

const at::Device gpu("cuda:0");

class OptimizersDevice : public test::NeedsGpu, public testing::WithParamInterface<Placement> {
 protected:
  [[nodiscard]] TableOptions home() const { return {.placement = GetParam(), .device = gpu}; }
};

void expect_same(const at::Tensor& found, const at::Tensor& wanted, const char* what) {
  const auto isa = kernels::isa_in_use();
  if (isa == "baseline")
    EXPECT_TRUE(at::allclose(found.cpu(), wanted, 1e-6, 1e-6)) << what;
  else
    EXPECT_TRUE(at::equal(found.cpu(), wanted)) << what;
}

TEST_P(OptimizersDevice, SparseRowsStepAsOnTheHost) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const auto& options : kernels::every_update()) {
      const auto start = at::randn({kRows, kColumns}, dtype);
      const auto table = Table::from_array(start, home());
      SparseRows there(table.tensor(), options, home());
      SparseRows here(start.clone(), options);
      for (const auto index_dtype : {at::kLong, at::kInt}) {
        const auto index = at::randint(kRows, {2000}, at::kLong).to(index_dtype);  // repeats rows
        const auto grad = at::randn({2000, kColumns}, dtype);
        there.step(index.to(gpu), grad.to(gpu));
        here.step(index, grad);
      }
      expect_same(there.table(), here.table(), "table");
      for (std::size_t k = 0; k < here.states().size(); ++k)
        expect_same(there.states()[k].table, here.states()[k].table, here.states()[k].name.c_str());
    }
  }
}

TEST_P(OptimizersDevice, FrequentRowsStepAsOnTheHost) {
  const auto start = at::randn({kRows, kColumns}, at::kDouble);
  const auto index = at::randint(20, {3000}, at::kLong).square().div(19, "floor");  // row 0 about 750 times
  const auto grad = at::randn({3000, kColumns}, at::kDouble);
  SparseRows here(start.clone(), SparseAdamOptions{});
  here.step(index, grad);
  const auto stepped = [&] {
    const auto table = Table::from_array(start, home());
    SparseRows there(table.tensor(), SparseAdamOptions{}, home());
    there.step(index.to(gpu), grad.to(gpu));
    return there.table().cpu();
  };
  const auto found = stepped();
  EXPECT_TRUE(at::allclose(found, here.table(), 1e-12, 1e-12));
  EXPECT_TRUE(at::equal(found, stepped()));
}

TEST_P(OptimizersDevice, StepsOnTheCallersStream) {
  const auto start = at::randn({kRows, kColumns});
  const auto index = at::randint(kRows, {500}, at::kLong);
  const auto grad = at::randn({500, kColumns});
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, 0));
  const auto table = Table::from_array(start, home());
  SparseRows there(table.tensor(), AdamOptions{}, home());
  SparseRows here(start.clone(), AdamOptions{});
  there.step(index.to(gpu), grad.to(gpu));
  here.step(index, grad);
  expect_same(there.table(), here.table(), "table");
}

TEST_P(OptimizersDevice, BadIndicesAreSkippedAndReported) {
  check_index_errors(gpu);  // clears errors of other tests
  const auto start = at::randn({kRows, kColumns});
  const auto table = Table::from_array(start, home());
  SparseRows there(table.tensor(), AdamOptions{}, home());
  SparseRows here(start.clone(), AdamOptions{});
  const auto index = at::randint(kRows, {500}, at::kLong);
  const auto grad = at::randn({500, kColumns});
  here.step(index, grad);
  const auto bad = at::cat({index, at::full({3}, kRows, at::kLong), at::full({2}, -1, at::kLong)});
  there.step(bad.to(gpu), at::cat({grad, at::ones({5, kColumns})}).to(gpu));
  expect_same(there.table(), here.table(), "table");
  EXPECT_THROW(check_index_errors(gpu), IndexError);
}

/// The host steps the rows of a pinned table by their own counts, and the GPU sees them.
TEST_P(OptimizersDevice, RowsCountTheirStepsInPinnedTablesOfTheHost) {
  const auto start = at::randn({kRows, kColumns});
  const auto table = Table::from_array(start, home());
  if (GetParam() == Placement::device) {
    EXPECT_THROW(SparseRows(table.tensor(), AdamOptions{}, home(), StepCount::by_row), PlacementError);
    return;
  }
  SparseRows there(table.host_tensor(), AdamOptions{}, home(), StepCount::by_row);
  SparseRows here(start.clone(), AdamOptions{}, {.placement = Placement::pageable}, StepCount::by_row);
  for (int step = 0; step < 3; ++step) {
    const auto index = at::randint(kRows, {900}, at::kLong);
    const auto grad = at::randn({900, kColumns});
    there.step(index, grad);
    here.step(index, grad);
  }
  EXPECT_TRUE(at::equal(table.tensor().cpu(), here.table()));
  EXPECT_TRUE(at::equal(there.row_steps(), here.row_steps()));
  EXPECT_GT(here.row_steps().max().item<std::int64_t>(), 1);
}

/// Trains some rows with Adamax and a factory's state tables; can be interrupted and resumed.
class TrainedRows {
 public:
  TrainedRows(at::Tensor vectors, const TableOptions& where)
      : vectors_(std::move(vectors)),
        weight_(at::zeros({1, kColumns}, gpu).requires_grad_(true)),
        optimizer_({weight_}, {.lr = 0.1}),
        states_(optimizer_, weight_, kRows, where) {}

  void train(int first, int last) {
    for (int step = first; step < last; ++step) {
      const auto rows = at::arange(step, kRows, 3 + step);
      weight_.set_data(vectors_.index_select(0, rows).to(gpu));
      weight_.mutable_grad() = weight_.detach().sin();
      states_.before_forward_pass(WeightRows(rows));
      optimizer_.step();
      states_.after_optimizer_step();
      vectors_.index_copy_(0, rows, weight_.detach().cpu());
    }
  }

  [[nodiscard]] std::vector<at::Tensor> tables() const {
    std::vector<at::Tensor> all{vectors_};
    for (const auto& each : states_.tables()) all.push_back(each.table.tensor().cpu());
    return all;
  }
  OptimizerFactory& states() { return states_; }

 private:
  at::Tensor vectors_, weight_;
  optim::Adamax optimizer_;
  OptimizerFactory states_;
};

void expect_equal(const TrainedRows& found, const TrainedRows& wanted) {
  const auto tables = found.tables();
  for (std::size_t k = 0; k < tables.size(); ++k) EXPECT_TRUE(at::equal(tables[k], wanted.tables()[k])) << k;
}

TEST_P(OptimizersDevice, FactoryTablesAreEqualInEachPlacement) {
  const auto start = at::randn({kRows, kColumns});
  TrainedRows there(start.clone(), home());
  TrainedRows staged(start.clone(), {.placement = Placement::hugepage});
  there.train(0, 5);
  staged.train(0, 5);
  expect_equal(there, staged);
}

TEST_P(OptimizersDevice, FactoryResumesFromItsFiles) {
  const stbench::test::TemporaryFolder folder;
  const auto saved = (folder.path() / "saved").string();
  const auto start = at::randn({kRows, kColumns});
  TrainedRows whole(start.clone(), home());
  whole.train(0, 3);
  whole.states().save(saved);
  TrainedRows resumed(whole.tables()[0].clone(), home());
  resumed.states().load(saved);
  whole.train(3, 6);
  resumed.train(3, 6);
  expect_equal(resumed, whole);
}

INSTANTIATE_TEST_SUITE_P(Every, OptimizersDevice, testing::Values(Placement::pinned, Placement::device),
                         [](const auto& placement) { return std::string(to_string(placement.param)); });

class WholeDevice : public OptimizersDevice {};

TEST_P(WholeDevice, ParametersStepAsOnTheHost) {
  const auto start = at::randn({kRows, kColumns});
  auto there = start.to(gpu).requires_grad_(true);
  auto here = start.clone().requires_grad_(true);
  optim::Rprop on_gpu({there}, {.lr = 0.1});
  optim::Rprop on_host({here}, {.lr = 0.1});
  for (int step = 0; step < 4; ++step) {
    const auto grad = at::randn({kRows, kColumns});
    there.mutable_grad() = grad.to(gpu);
    here.mutable_grad() = grad;
    on_gpu.step();
    on_host.step();
  }
  expect_same(there.detach(), here.detach(), "parameter");
}

TEST_P(WholeDevice, SparseGradientsStepAsOnTheHost) {
  const auto start = at::randn({kRows, kColumns});
  auto there = start.to(gpu).requires_grad_(true);
  auto here = start.clone().requires_grad_(true);
  optim::SparseAdam on_gpu({there});
  optim::SparseAdam on_host({here});
  const auto index = at::randint(kRows, {1, 900}, at::kLong);
  const auto grad = at::sparse_coo_tensor(index, at::randn({900, kColumns}), {kRows, kColumns});
  there.mutable_grad() = grad.to(gpu);
  here.mutable_grad() = grad;
  on_gpu.step();
  on_host.step();
  expect_same(there.detach(), here.detach(), "parameter");
}

TEST_P(WholeDevice, HomesThatTheGpuDoesNotReachAreRefused) {
  const auto table = at::zeros({4, 3}, gpu);
  EXPECT_THROW(SparseRows(table, AdamOptions{}, {.placement = Placement::hugepage}), PlacementError);
  auto weight = at::zeros({4, 3}, gpu).requires_grad_(true);
  optim::Adam optimizer({weight});
  EXPECT_THROW(OptimizerFactory(optimizer, weight, 4, home(), StepCount::by_row), PlacementError);
}

INSTANTIATE_TEST_SUITE_P(Every, WholeDevice, testing::Values(Placement::device),
                         [](const auto& placement) { return std::string(to_string(placement.param)); });

}  // namespace
}  // namespace speedtorch
