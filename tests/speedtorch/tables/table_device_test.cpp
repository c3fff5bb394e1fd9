/// Needs a GPU; without one each test is skipped with the reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "speedtorch/error.h"
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

INSTANTIATE_TEST_SUITE_P(All, DeviceTables, testing::Values(Placement::pinned, Placement::device),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace speedtorch
