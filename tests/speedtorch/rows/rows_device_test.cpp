/// Needs a GPU; without one each test is skipped with the reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/rows/rows.h"
#include "tests/speedtorch/gpu_fixture.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace speedtorch {
namespace {

class DeviceRows : public test::NeedsGpu, public testing::WithParamInterface<Placement> {};

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
      scatter_rows(table, device_index, values.to(table.device()));
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

TEST_P(DeviceRows, EveryOptionMovesTheSame) {
  const auto host = at::randint(-100, 100, {1000, 33}, at::kInt);
  const auto memory = allocate(GetParam(), static_cast<std::int64_t>(host.nbytes()), at::Device("cuda:0"));
  auto table = memory->tensor({1000, 33}, at::kInt);
  table.copy_(host);
  const auto index = at::randint(1000, {3000}, at::kLong);  // repeats rows
  const auto device_index = index.to(table.device());
  for (const auto order : {IndexOrder::as_given, IndexOrder::sorted, IndexOrder::unique}) {
    for (const int max_sms : {0, 4}) {
      auto out = at::zeros({3000, 33}, table.options());
      RowsOptions options{.max_sms = max_sms, .check_indices = max_sms == 0, .order = order, .workspace = {}};
      if (order != IndexOrder::as_given) {
        EXPECT_THROW(gather_rows(table, device_index, out, options), ShapeError) << "without a workspace";
      }
      options.workspace =
          at::empty({gather_workspace_bytes(table, device_index, order)}, table.options().dtype(at::kByte));
      gather_rows(table, device_index, out, options);
      EXPECT_TRUE(at::equal(out.cpu(), host.index_select(0, index)));
    }
  }
}

TEST_P(DeviceRows, BadIndicesAreReportedOnRequestAndOnce) {
  const at::Device device("cuda:0");
  const auto memory = allocate(GetParam(), 1000 * 4, device);
  auto table = memory->tensor({100, 10}, at::kFloat);
  table.fill_(1);
  auto out = at::zeros({50, 10}, at::TensorOptions().dtype(at::kFloat).device(device));
  auto index = at::arange(50, at::kLong);
  index[7] = 100;
  check_index_errors(device);  // clears what other tests left
  const auto device_index = index.to(device);
  gather_rows(table, device_index, out);
  try {
    check_index_errors(device);
    FAIL() << "index 100 of 100 rows";
  } catch (const IndexError& error) {
    EXPECT_EQ(error.position(), 7);
    EXPECT_EQ(error.index(), 100);
    EXPECT_EQ(error.rows(), 100);
  }
  EXPECT_NO_THROW(check_index_errors(device));
  EXPECT_TRUE(out[7].isnan().all().item<bool>()) << "poisoned";
  EXPECT_TRUE(out[6].eq(1).all().item<bool>());
  scatter_rows(table, device_index, at::full_like(out, 2));
  EXPECT_THROW(check_index_errors(device), IndexError);
  EXPECT_EQ(table.sum().item<float>(), 49 * 20 + 51 * 10);
}

/// For a device without a number: each check reports those since the last, with their own position and value.
TEST_P(DeviceRows, EachCheckReportsItsOwnBadIndices) {
  const at::Device device("cuda:0");
  const auto memory = allocate(GetParam(), 1000 * 4, device);
  auto table = memory->tensor({100, 10}, at::kFloat);
  table.zero_();
  auto out = at::zeros({50, 10}, at::TensorOptions().dtype(at::kFloat).device(device));
  check_index_errors(device);  // clears what other tests left
  for (const std::int64_t position : {30, 40, 20}) {
    auto index = at::arange(50, at::kLong);
    index[position] = 100 + position;
    gather_rows(table, index.to(device), out);
    try {
      check_index_errors(at::kCUDA);
      FAIL() << "index " << 100 + position << " of 100 rows";
    } catch (const IndexError& error) {
      EXPECT_EQ(error.position(), position);
      EXPECT_EQ(error.index(), 100 + position);
      const std::string more = "(one of 1 on cuda:0 since the last check; the smallest position is " +
                               std::to_string(position) + ")";
      EXPECT_NE(std::string(error.what()).find(more), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(check_index_errors(at::kCUDA));
  }
}

TEST_P(DeviceRows, AStridedOrUnalignedWorkspaceIsRefused) {
  const auto memory = allocate(GetParam(), 1000 * 4, at::Device("cuda:0"));
  auto table = memory->tensor({100, 10}, at::kInt);
  const auto index = at::arange(50, at::kLong).to(table.device());
  auto out = at::zeros({50, 10}, table.options());
  const auto bytes = gather_workspace_bytes(table, index, IndexOrder::sorted);
  const auto lent = at::empty({2 * bytes + 256}, table.options().dtype(at::kByte));
  for (const auto& workspace : {lent.slice(0, 0, 2 * bytes, 2), lent.slice(0, 16, bytes + 16)}) {
    const RowsOptions options{.order = IndexOrder::sorted, .workspace = workspace};
    EXPECT_THROW(gather_rows(table, index, out, options), ShapeError);
  }
}

#ifdef SPEEDTORCH_HAS_CUDA
void check(cudaError_t status) { ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status); }

/// Captures the whole call, including the checks of the indices, in each order of the index.
TEST_P(DeviceRows, ACapturedGatherReplaysWithWhatTheOperandsThenHold) {
  const auto host = at::randint(-100, 100, {1000, 33}, at::kInt);
  const auto memory = allocate(GetParam(), static_cast<std::int64_t>(host.nbytes()), at::Device("cuda:0"));
  auto table = memory->tensor({1000, 33}, at::kInt);
  table.copy_(host);
  const c10::cuda::CUDAStreamGuard on_its_stream(c10::cuda::getStreamFromPool(false, 0));
  const auto stream = c10::cuda::getCurrentCUDAStream();
  for (const auto order : {IndexOrder::as_given, IndexOrder::sorted, IndexOrder::unique}) {
    auto index = at::randint(1000, {3000}, at::kLong).to(table.device());
    auto out = at::zeros({3000, 33}, table.options());
    RowsOptions options{.order = order, .workspace = {}};
    options.workspace =
        at::empty({gather_workspace_bytes(table, index, order)}, table.options().dtype(at::kByte));
    gather_rows(table, index, out, options);  // loads the kernels
    check(cudaStreamSynchronize(stream));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    gather_rows(table, index, out, options);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&replay, graph, 0));
    const auto other = at::randint(1000, {3000}, at::kLong);
    index.copy_(other);
    check(cudaGraphLaunch(replay, stream));
    check(cudaStreamSynchronize(stream));
    EXPECT_TRUE(at::equal(out.cpu(), host.index_select(0, other))) << int(order);
    check(cudaGraphExecDestroy(replay));
    check(cudaGraphDestroy(graph));
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(All, DeviceRows, testing::Values(Placement::device, Placement::pinned),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace speedtorch
