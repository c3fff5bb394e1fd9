/// Needs a GPU; without one each test is skipped with the reason.
#include "speedtorch/rows/hybrid.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/rows/rows.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

class HybridDevice : public test::NeedsGpu {
 protected:
  void SetUp() override {
    NeedsGpu::SetUp();
    if (IsSkipped()) return;
    memory = allocate(Placement::pinned, rows * dim * 4, at::Device("cuda:0"));
    table = memory->tensor({rows, dim}, at::kInt);
    host_table = memory->host_tensor({rows, dim}, at::kInt);
    host_table.copy_(at::randint(1 << 30, {rows, dim}, at::kInt));
  }

  static constexpr std::int64_t rows = 50'000, dim = 129, batch = 30'000;
  std::shared_ptr<Memory> memory;
  at::Tensor table, host_table;
};

TEST_F(HybridDevice, GathersAsTheHostDoes) {
  HybridGather hybrid(table, host_table, batch);
  EXPECT_GE(hybrid.share(), 0);
  EXPECT_LE(hybrid.share(), 1);
  EXPECT_GT(hybrid.rates().zero_copy, 0);
  EXPECT_GT(hybrid.rates().host_gather, 0);
  EXPECT_GT(hybrid.rates().copy_engine, 0);
  for (const auto count : {std::int64_t{1}, std::int64_t{7}, std::int64_t{10'000}, batch}) {
    for (const auto type : {at::kLong, at::kInt}) {
      const auto index = at::randint(rows, {count}, at::kLong).to(type);
      auto out = at::zeros({count, dim}, table.options());
      hybrid.gather(index.to(table.device()), index, out);
      EXPECT_TRUE(at::equal(out.cpu(), host_table.index_select(0, index))) << count;
    }
  }
}

/// Uses both ways whatever the machine's rates are, also on an emulated GPU.
TEST_F(HybridDevice, GathersByEachWayAndBoth) {
  for (const double share : {0.0, 0.3, 1.0}) {
    HybridGather hybrid(table, host_table, batch, share);
    EXPECT_EQ(hybrid.share(), share);
    EXPECT_EQ(hybrid.rates().copy_engine, 0) << "nothing is measured";
    for (int round = 0; round < 3; ++round) {
      const auto index = at::randint(rows, {batch}, at::kLong);
      auto out = at::zeros({batch, dim}, table.options());
      hybrid.gather(index.to(table.device()), index, out);
      ASSERT_TRUE(at::equal(out.cpu(), host_table.index_select(0, index))) << share;
    }
  }
  EXPECT_THROW(HybridGather(table, host_table, batch, 1.5), OptionError);
  EXPECT_THROW(HybridGather(table, host_table, batch, std::nan("")), OptionError);
}

/// Enqueues all of them before it checks one.
TEST_F(HybridDevice, ManyInARowDoNotOvertakeEachOther) {
  HybridGather hybrid(table, host_table, batch, 0.5);
  constexpr int rounds = 12;
  std::vector<at::Tensor> indices, device_indices, outs;
  for (int round = 0; round < rounds; ++round) {
    indices.push_back(at::randint(rows, {batch}, at::kLong));
    device_indices.push_back(indices.back().to(table.device()));
    outs.push_back(at::zeros({batch, dim}, table.options()));
  }
  for (std::size_t round = 0; round < rounds; ++round)
    hybrid.gather(device_indices[round], indices[round], outs[round]);
  for (std::size_t round = 0; round < rounds; ++round)
    ASSERT_TRUE(at::equal(outs[round].cpu(), host_table.index_select(0, indices[round]))) << round;
}

TEST_F(HybridDevice, MayBeDestroyedWhileItsCopiesRun) {
  for (int round = 0; round < 5; ++round) {
    const auto index = at::randint(rows, {batch}, at::kLong), on_device = index.to(table.device());
    auto out = at::zeros({batch, dim}, table.options());
    HybridGather(table, host_table, batch, 0.5).gather(on_device, index, out);
    EXPECT_TRUE(at::equal(out.cpu(), host_table.index_select(0, index))) << round;
  }
}

TEST_F(HybridDevice, LeavesTheCallersRandomNumbersAlone) {
  at::manual_seed(7);
  const auto expected = at::rand({10});
  at::manual_seed(7);
  const HybridGather hybrid(table, host_table, 1000);
  EXPECT_TRUE(at::equal(at::rand({10}), expected));
}

TEST_F(HybridDevice, RefusesOperandsThatDoNotFit) {
  HybridGather hybrid(table, host_table, 10);
  const auto index = at::zeros({11}, at::kLong);
  auto out = at::zeros({11, dim}, table.options());
  EXPECT_THROW(hybrid.gather(index.to(table.device()), index, out), ShapeError);
  auto narrow = at::zeros({10, dim - 1}, table.options());
  const auto ten = at::zeros({10}, at::kLong);
  EXPECT_THROW(hybrid.gather(ten.to(table.device()), ten, narrow), ShapeError);
  auto fits = at::zeros({10, dim}, table.options());
  EXPECT_THROW(hybrid.gather(ten.to(table.device()), ten.to(table.device()), fits), PlacementError);
  EXPECT_THROW(hybrid.gather(ten.to(table.device()), at::zeros({1}, at::kLong).expand({10}), fits),
               ShapeError);
  auto inside = table.slice(0, 0, 10);
  EXPECT_THROW(hybrid.gather(ten.to(table.device()), ten, inside), ShapeError);
  EXPECT_THROW(HybridGather(table.slice(0, 0, 0), host_table.slice(0, 0, 0), 10), ShapeError);
}

}  // namespace
}  // namespace speedtorch
