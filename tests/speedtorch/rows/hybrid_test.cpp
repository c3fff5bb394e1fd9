/// The messages of the hybrid gather and its options without a GPU.
#include "speedtorch/rows/hybrid.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "speedtorch/error.h"
#include "speedtorch/rows/rows.h"

namespace speedtorch {
namespace {

TEST(Hybrid, RefusesAnythingButTheTwoViewsOfOnePinnedMemory) {
  const auto table = at::zeros({10, 4}), other = at::zeros({10, 4});
  EXPECT_THROW(HybridGather(table, table, 5), PlacementError);
  EXPECT_THROW(HybridGather(table, other, 5), PlacementError);
}

TEST(RowsOptions, TheHostChecksAndMovesAsAlways) {
  const auto table = at::arange(30).view({10, 3});
  auto index = at::tensor({4, 9, 0}, at::kLong);
  auto out = at::zeros({3, 3}, at::kLong);
  const RowsOptions options{
      .max_sms = 2, .check_indices = false, .order = IndexOrder::unique, .workspace = {}};
  gather_rows(table, index, out, options);
  EXPECT_TRUE(at::equal(out, table.index_select(0, index)));
  index[1] = 10;
  EXPECT_THROW(gather_rows(table, index, out, options), IndexError);
  EXPECT_EQ(gather_workspace_bytes(table, index, IndexOrder::unique), 0);
}

TEST(CheckIndexErrors, ReportsNothingForTheHost) { EXPECT_NO_THROW(check_index_errors(at::kCPU)); }

TEST(CheckIndexErrors, ReportsNothingForAMissingGpu) {
  EXPECT_NO_THROW(check_index_errors(at::kCUDA));
  EXPECT_NO_THROW(check_index_errors(at::Device("cuda:0")));
}

}  // namespace
}  // namespace speedtorch
