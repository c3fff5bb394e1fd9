/// Needs a GPU; without one each test is skipped with the reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/rows/gather.h"
#include "speedtorch/tables/data_gadget.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

class DeviceTableRows : public test::NeedsGpu, public testing::WithParamInterface<Placement> {
 protected:
  [[nodiscard]] static TableOptions options() {
    return {.placement = GetParam(), .device = needs_cuda(GetParam()) ? at::Device("cuda:0") : at::kCPU};
  }
  const at::Tensor source_ = at::randint(-100, 100, {1000, 3, 5}, at::kLong).to(at::kFloat);
  const std::vector<at::Device> models_{at::Device("cpu"), at::Device("cuda:0")};
};

TEST_P(DeviceTableRows, GatherAndScatterForModelsOnBothSides) {
  for (const auto model : models_) {
    for (const auto index_device : models_) {
      const auto table = Table::from_array(source_, options());
      const auto index = at::randperm(1000, at::kLong).slice(0, 0, 300).view({10, 30});
      const auto expected = source_.index({index});
      const auto rows = gather_rows(table, index.to(index_device), model);
      EXPECT_EQ(rows.device(), model);
      EXPECT_TRUE(at::equal(rows.cpu(), expected));
      auto out = at::zeros({300, 3, 5}, rows.options());
      gather_rows(table, index.to(index_device).to(at::kInt), out);
      EXPECT_TRUE(at::equal(out.cpu(), expected.view({300, 3, 5})));
      scatter_rows(table, index.to(index_device), rows + 1, Duplicates::reject);
      EXPECT_TRUE(at::equal(gather_rows(table, index, at::kCPU), expected + 1));  // waits for the GPU
      EXPECT_TRUE(at::equal(host_copy(table), source_.index_put({index}, expected + 1)));  // no stale read
    }
  }
}

TEST_P(DeviceTableRows, DuplicatesAreDecidedAsOnTheHost) {
  const auto index = at::randint(0, 50, {2000}, at::kLong);
  const auto values = at::randint(-8, 8, {2000, 3, 5}, at::kLong).to(at::kFloat);  // sums are exact
  for (const auto model : models_) {
    for (const auto duplicates : {Duplicates::last, Duplicates::accumulate}) {
      auto expected = source_.clone();
      scatter_rows(expected, index, values, duplicates);
      const auto table = Table::from_array(source_, options());
      scatter_rows(table, index, values.to(model), duplicates);
      EXPECT_TRUE(at::equal(host_copy(table), expected));
      EXPECT_THROW(scatter_rows(table, index, values.to(model), Duplicates::reject), DuplicateError);
    }
  }
}

TEST_P(DeviceTableRows, PrefetchedBatchesAreThoseOfTheTable) {
  for (const auto model : models_) {
    auto gadget = DataGadget::from_tensor(source_, options(), model);
    auto expected = source_.clone();
    gadget.prefetch(RowRange{0, 64});
    for (std::int64_t k = 0; k < 20; ++k) {
      gadget.prefetch(at::tensor({k, k + 1, std::int64_t{900}}, at::kLong));
      gadget.insert_data(
          at::full({1, 3, 5}, static_cast<double>(k), at::TensorOptions().dtype(at::kFloat).device(model)),
          at::tensor({900}, at::kLong));
      expected[900].fill_(k);
      const auto rows = gadget.take();
      EXPECT_EQ(rows.device(), model);
      if (k > 0) {
        EXPECT_TRUE(at::equal(rows.cpu(), expected.index({at::tensor({k - 1, k, std::int64_t{900}})}))) << k;
      }
    }
  }
}

TEST_P(DeviceTableRows, GadgetsOfFilesAndOfMemoryGiveAndTakeRows) {
  const stbench::test::TemporaryFolder folder;
  const auto path = (folder.path() / "gadget.npy").string();
  DataGadget::from_tensor(source_).save(path);
  const auto index = at::randperm(1000, at::kLong).slice(0, 0, 40);
  for (const auto model : models_) {
    for (const bool of_a_file : {true, false}) {
      auto gadget = of_a_file ? DataGadget::from_file(path, options(), model, Access::read_write)
                              : DataGadget::from_tensor(source_.to(model), options(), model);
      const auto rows = gadget.get_data(index);
      EXPECT_EQ(rows.device(), model);
      EXPECT_TRUE(at::equal(rows.cpu(), source_.index({index})));
      gadget.insert_data(rows + 1, index);
      EXPECT_TRUE(at::equal(gadget.host_copy(), source_.index_put({index}, source_.index({index}) + 1)));
      gadget.insert_data(rows, index);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, DeviceTableRows,
                         testing::Values(Placement::libtorch, Placement::hugepage, Placement::mapped,
                                         Placement::pinned, Placement::device),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(DeviceGather, GradientIsThatOfIndexSelect) {
  const auto& status = cuda_status();
  if (!status.available) GTEST_SKIP() << status.found << "; missing: " << status.missing;
  const auto values = at::randn({50, 7}, at::TensorOptions().device("cuda:0"));
  const auto index = at::randint(0, 50, {300}, at::TensorOptions().dtype(at::kLong).device("cuda:0"));
  auto ours = values.clone().requires_grad_(), theirs = values.clone().requires_grad_();
  gather_rows(ours, index).sum().backward();
  theirs.index_select(0, index).sum().backward();
  EXPECT_TRUE(at::equal(ours.grad(), theirs.grad()));
}

}  // namespace
}  // namespace speedtorch
