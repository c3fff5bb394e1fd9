/// The GPU that memory is on, how long it lives, and what its errors leave behind. Needs one or two GPUs.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <limits>

#include "speedtorch/error.h"
#include "speedtorch/memory/memory.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/tables/co_occurrence.h"
#include "speedtorch/tables/memory_plan.h"
#include "speedtorch/tables/prefetch.h"
#include "speedtorch/tables/table.h"
#include "speedtorch/tables/table_rows.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class GpuMemory : public test::NeedsGpu {};
class GpuMemoryOfTwo : public test::NeedsTwoGpus {};

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
const at::Device the_gpu("cuda:0");
const at::Device no_gpu("cuda:9");

TEST_F(GpuMemory, IsOnTheCurrentGpuByDefault) {
  for (const auto placement : {Placement::pinned, Placement::device}) {
    for (const auto device : {at::Device(at::kCPU), at::Device(at::kCUDA), the_gpu}) {
      const auto memory = allocate(placement, kMiB, device);
      EXPECT_EQ(memory->device(), the_gpu) << device;
      EXPECT_EQ(memory->tensor({8}, at::kFloat).device(), the_gpu) << device;
    }
    EXPECT_EQ(Table::empty({3, 2}, at::kFloat, TableOptions{.placement = placement}).memory()->device(),
              the_gpu);
  }
  EXPECT_GT(cuda_cache_bytes(at::Device(at::kCUDA)), 0);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(GpuMemoryOfTwo, IsOnTheThreadsCurrentGpu) {
  const c10::cuda::CUDAGuard guard(1);
  EXPECT_EQ(allocate(Placement::device, kMiB)->device(), at::Device("cuda:1"));
  EXPECT_EQ(allocate(Placement::pinned, kMiB)->device(), at::Device("cuda:1"));
}

/// Works on the other GPU, with tables that a guard puts there.
TEST_F(GpuMemoryOfTwo, AGuardsTablesAreOnItsGpuAndTheThreadStaysOnItsOwn) {
  const at::Device other("cuda:1");
  const auto values = at::arange(40).view({10, 4}).to(at::kFloat);
  const auto index = at::tensor({7, 0, 3});
  for (const auto placement : {Placement::device, Placement::pinned}) {
    const DefaultTableOptionsGuard scope({.placement = placement, .device = other});
    const auto table = Table::from_array(values);
    EXPECT_EQ(table.memory()->device(), other);
    for (const auto model : {other, the_gpu, at::Device(at::kCPU)}) {
      const auto rows = gather_rows(table, index, model);
      EXPECT_EQ(rows.device(), model);
      EXPECT_TRUE(at::equal(rows.cpu(), values.index_select(0, index)));
    }
    scatter_rows(table, index.to(other), at::zeros({3, 4}, other), Duplicates::reject);
    EXPECT_EQ(host_copy(table).index_select(0, index).abs().sum().item<float>(), 0);
    check_index_errors(other);
    EXPECT_EQ(c10::cuda::current_device(), 0);
  }
  EXPECT_EQ(Table::empty({3}, at::kFloat, TableOptions{.placement = Placement::device}).memory()->device(),
            the_gpu);
}

/// The host counts in the table and the GPU reads it.
TEST_F(GpuMemory, CountsPairsInPinnedMemory) {
  const auto first = at::randint(0, 20, {3000}, at::kLong), second = at::randint(0, 20, {3000}, at::kLong);
  CoOccurrence here(20), there(20, TableOptions{.placement = Placement::pinned, .device = the_gpu});
  here.add_pairs(first, second);
  there.add_pairs(first, second);
  EXPECT_TRUE(at::equal(there.table().tensor().cpu(), here.counts()));
  EXPECT_THROW(CoOccurrence(20, TableOptions{.placement = Placement::device, .device = the_gpu}), Error);
}

/// What the plan puts on the GPU can be allocated there; the rest goes to pinned memory.
TEST_F(GpuMemory, IsPlannedByWhatIsFree) {
  const auto budgets = free_budgets(the_gpu, ".");
  EXPECT_GT(budgets.device, 0);
  EXPECT_LE(budgets.device, cuda_free_bytes(the_gpu));
  EXPECT_GT(budgets.pinned, 0);
  const auto rows = budgets.device / 400 * 3 / 4;
  const auto plan =
      plan_memory({{.name = "a", .rows = rows, .dim = 100}, {.name = "b", .rows = rows, .dim = 100}},
                  {.device = budgets.device, .pinned = 800 * rows, .host = 800 * rows});
  EXPECT_EQ(plan.placement_of("a"), Placement::device);
  EXPECT_EQ(plan.placement_of("b"), Placement::pinned);
}

/// CUDA refuses to wait for a device while one of its streams is captured.
TEST_F(GpuMemory, AFailedWaitIsReported) {
  const auto stream = c10::cuda::getStreamFromPool(false, 0);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_THROW(synchronize_cuda(the_gpu), CudaError);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  cudaStreamEndCapture(stream, &graph);  // an invalid one fails
  cudaGetLastError();
  if (graph != nullptr) cudaGraphDestroy(graph);
}

TEST_F(GpuMemory, RefusesAMissingGpu) {
  const auto table = Table::filled({10, 4}, at::kFloat, Zeros{}, {.placement = Placement::pinned});
  const auto index = at::zeros({2}, at::kLong);
  const auto refuses = ThrowsMessage<PlacementError>(HasSubstr("cuda:9"));
  EXPECT_THAT([] { allocate(Placement::device, kMiB, no_gpu); }, refuses);
  EXPECT_THAT([] { allocate(Placement::pinned, kMiB, no_gpu); }, refuses);
  EXPECT_THAT([&] { gather_rows(table, index, no_gpu); }, refuses);
  EXPECT_THAT([&] { Prefetcher prefetcher(table, no_gpu); }, refuses);
  EXPECT_THAT([] { check_index_errors(no_gpu); }, refuses);
  EXPECT_THAT([] { (void)cuda_free_bytes(no_gpu); }, refuses);
}

/// The tensor is freed and its memory reused while a recorded stream still reads it.
TEST_F(GpuMemory, WaitsForTheStreamsThatWereRecorded) {
  const auto stream = c10::cuda::getStreamFromPool(false, 0);
  at::Tensor seen;
  {
    auto tensor = allocate(Placement::device, kMiB, the_gpu)->tensor({kMiB / 4}, at::kInt);
    tensor.fill_(7);
    c10::cuda::getCurrentCUDAStream().synchronize();
    const c10::cuda::CUDAStreamGuard guard(stream);
    seen = tensor + 1;
    tensor.record_stream(stream.unwrap());
  }
  const auto next = allocate(Placement::device, kMiB, the_gpu)->tensor({kMiB / 4}, at::kInt);
  next.fill_(0);
  stream.synchronize();
  EXPECT_TRUE(seen.eq(8).all().item<bool>());
}

TEST_F(GpuMemory, RefusalsLeaveNoErrorBehind) {
  EXPECT_THROW(allocate(Placement::device, std::numeric_limits<std::int64_t>::max() / 4, the_gpu),
               MemoryError);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(at::ones({3}, the_gpu).sum().item<float>(), 3);
}

TEST_F(GpuMemory, SumsEveryTypeThatTheHostSums) {
  for (const auto dtype : {at::kUInt16, at::kUInt32, at::kUInt64, at::kByte, at::kChar, at::kShort, at::kInt,
                           at::kLong, at::kHalf, at::kFloat, at::kDouble}) {
    const auto start = at::arange(12).to(dtype).view({4, 3});
    const auto values = at::full({5, 3}, 60'000).to(dtype);
    const auto index = at::tensor({1, 3, 1, 1, 0});
    auto host = start.clone();
    scatter_rows(host, index, values, Duplicates::accumulate);
    auto there = start.to(the_gpu);
    scatter_rows(there, index, values.to(the_gpu), Duplicates::accumulate);
    // The sums of halves are out of range: both are infinite.
    EXPECT_TRUE(at::equal(there.cpu().view(at::kByte), host.view(at::kByte))) << dtype;
  }
}

}  // namespace
}  // namespace speedtorch
