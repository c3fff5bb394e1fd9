/// Needs a GPU; without one each test is skipped with the reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "speedtorch/contiguous/parameters.h"
#include "speedtorch/error.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/tables/data_gadget.h"
#include "speedtorch/tables/table.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

class DeviceTables : public test::NeedsGpu, public testing::WithParamInterface<Placement> {
 protected:
  [[nodiscard]] static TableOptions options() {
    return {.placement = GetParam(), .device = at::Device("cuda:0")};
  }
};

TEST_P(DeviceTables, HoldTheNumbersOfTheHost) {
  // More than the block through which a GPU's memory is filled, and not a multiple of it.
  constexpr std::int64_t rows = 300'001, row = 77;
  for (const Fill& with :
       {Fill(Zeros{}), Fill(Uniform{-1, 1, 3}), Fill(Normal{0, 1, 3}),
        Fill(ByPieces([](at::Tensor&piece, std::int64_t first) {
          piece.copy_(at::arange(first, first + piece.size(0)).unsqueeze(1).expand(piece.sizes()));
        }))}) {
    auto expected = at::empty({rows, row});
    fill(expected, with);
    const auto table = Table::filled({rows, row}, at::kFloat, with, options());
    EXPECT_TRUE(table.tensor().is_cuda());
    EXPECT_TRUE(at::equal(table.tensor().cpu(), expected));
  }
}

TEST_P(DeviceTables, CopyArraysOfHostAndDevice) {
  const auto host = at::arange(70'000 * 300).view({300, 70'000}).t();  // 168 MB, not contiguous
  for (const auto& array : {host, host.to(at::kCUDA), host.to(at::kCUDA).t().contiguous().t()})
    EXPECT_TRUE(at::equal(Table::from_array(array, options()).tensor().cpu(), host));
}

TEST_P(DeviceTables, AreReadFromFiles) {
  const stbench::test::TemporaryFolder folder;
  const auto path = (folder.path() / "table.npy").string();
  const auto file = Table::filled({300'001, 77}, at::kFloat, Normal{0, 1, 3},
                                  {.placement = Placement::mapped, .file = path});
  EXPECT_TRUE(at::equal(Table::from_file(path, options()).tensor().cpu(), file.tensor()));
}

TEST_P(DeviceTables, ShowThePinnedBytesToBothSides) {
  const auto table = Table::filled({1000, 8}, at::kFloat, Zeros{}, options());
  if (GetParam() == Placement::device) {
    EXPECT_THROW((void)table.host_tensor(), PlacementError);
    return;
  }
  table.host_tensor()[3].fill_(3);
  EXPECT_EQ(table.tensor().sum().item<float>(), 24.0F);
  table.tensor()[4].fill_(4);
  at::Tensor(table.tensor().sum()).item<float>();  // waits for the device
  EXPECT_EQ(table.host_tensor()[4].sum().item<float>(), 32.0F);
}

TEST_P(DeviceTables, RefusalsLeaveNoErrorBehind) {
  EXPECT_THROW((void)Table::empty({std::int64_t{1} << 45}, at::kFloat, options()), LimitError);
  EXPECT_EQ(Table::filled({10}, at::kFloat, Uniform{2, 3, 0}, options()).tensor().numel(), 10);
}

TEST_P(DeviceTables, OfCompressedSparseArraysAreRefused) {
  const auto csr = at::eye(3).to_sparse_csr().requires_grad_(true);
  EXPECT_THROW((void)Table::from_array(csr, options()), Error);
  EXPECT_THROW((void)SparseRows(csr, AdamOptions{}), Error);
  EXPECT_THROW((void)ContiguousParameters(std::vector<at::Tensor>{csr}), Error);
}

/// In a process of its own, which then ends without an error, as data_gadget.h promises.
TEST_P(DeviceTables, AGadgetThatGoesBeforeMainEndsLeavesNothingToTheEndOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static std::optional<DataGadget> gadget;
        gadget.emplace(DataGadget::from_tensor(at::ones({10, 4}), options(), at::Device("cuda:0")));
        gadget->prefetch(at::tensor({3, 1}));
        const bool right = gadget->take().sum().item<float>() == 8;
        gadget.reset();
        std::exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTables, testing::Values(Placement::pinned, Placement::device),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace speedtorch
