/// Needs a GPU; without one each test is skipped with the reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "speedtorch/cuda.h"
#include "speedtorch/memory.h"
#include "speedtorch/rows.h"

namespace speedtorch {
namespace {

class DeviceRows : public testing::TestWithParam<Placement> {
 protected:
  void SetUp() override {
    const auto& status = cuda_status();
    if (!status.available) GTEST_SKIP() << status.found << "; missing: " << status.missing;
  }
};

TEST_P(DeviceRows, GatherAndScatterEqualTheHost) {
  for (const std::int64_t dim : {1, 3, 64, 128, 129}) {
    for (const auto index_type : {at::kLong, at::kInt}) {
      const auto host = at::randint(-100, 100, {1000, dim}, at::kLong).to(at::kFloat);
      const auto memory =
          allocate(GetParam(), static_cast<std::int64_t>(host.nbytes()), at::Device("cuda:0"));
      auto table = memory->tensor({1000, dim}, at::kFloat);
      table.copy_(host);
      const auto index = at::randperm(1000, at::kLong).slice(0, 0, 300).contiguous();
      const auto device_index = index.to(index_type).to(table.device());
      auto out = at::zeros({300, dim}, table.options());
      gather_rows(table, device_index, out);
      EXPECT_TRUE(at::equal(out.cpu(), host.index_select(0, index))) << dim;

      const auto values = at::randint(-100, 100, {300, dim}, at::kLong).to(at::kFloat);
      scatter_rows(values.to(table.device()), device_index, table);
      EXPECT_TRUE(at::equal(table.cpu(), host.index_copy(0, index, values))) << dim;
    }
  }
}

TEST_P(DeviceRows, StreamCopyEqualsTheSource) {
  const auto memory = allocate(GetParam(), 1 << 20, at::Device("cuda:0"));
  auto from = memory->tensor({1 << 20}, at::kByte);
  const auto host = at::randint(0, 255, {1 << 20}, at::kByte);
  from.copy_(host);
  auto to = at::zeros({1 << 20}, at::TensorOptions().dtype(at::kByte).device(at::kCUDA));
  stream_copy(from, to);
  EXPECT_TRUE(at::equal(to.cpu(), host));
}

INSTANTIATE_TEST_SUITE_P(All, DeviceRows, testing::Values(Placement::device, Placement::pinned),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace speedtorch
