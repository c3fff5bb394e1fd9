/// Compares InfinityBatch on a GPU with the host, and trains beyond a cap on the GPU's memory. Skipped
/// without a GPU.
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "speedtorch/cuda.h"
#include "speedtorch/infinity/memory_history.h"
#include "speedtorch/infinity/memory_monitor.h"
#include "speedtorch/infinity/out_of_memory.h"
#include "tests/speedtorch/gpu_fixture.h"
#include "tests/speedtorch/infinity/models.h"
#ifdef SPEEDTORCH_HAS_CUDA
#include <ATen/core/CachingHostAllocator.h>

#include "tests/speedtorch/gpu_cap.h"
#endif

namespace speedtorch::test {
namespace {

const at::Device gpu(at::kCUDA, 0);

class InfinityBatchOnDevice : public NeedsGpu {};

struct Way {
  const char* name;
  std::int64_t micro_batch = 7;
  bool prefetch = false;
  std::int64_t offload_at_least = 0;
  std::optional<TableOptions> states_home = {};
  std::optional<at::Device> backward_device = {};
};

class OnDevice : public InfinityBatchOnDevice, public testing::WithParamInterface<Way> {};
INSTANTIATE_TEST_SUITE_P(
    InfinityBatch, OnDevice,
    testing::Values(Way{"plain"}, Way{"whole", 50}, Way{.name = "prefetched", .prefetch = true},
                    Way{.name = "offloaded", .offload_at_least = 1},
                    Way{.name = "pinned_states", .states_home = TableOptions{.placement = Placement::pinned}},
                    Way{.name = "loss_on_the_host", .backward_device = at::Device(at::kCPU)}),
    [](const auto& way) { return way.param.name; });

/// Parameters after three epochs of Adam, copied to the host.
Tensors trained(at::Device device, const Way& way) {
  auto net = mlp(at::kDouble);
  net->to(device);
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  const Examples data = examples(50);
  auto options = quiet(way.micro_batch);
  options.prefetch = way.prefetch;
  options.offload_at_least = way.offload_at_least;
  options.states_home = way.states_home;
  options.backward_device = way.backward_device;
  InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                   Data(std::vector<Batch>{{data.inputs, data.classes}}), options);
  ib(3);
  EXPECT_EQ(ib.prefetched() > 0, way.prefetch);
  return infinity::on_device(parameters_of(net), at::kCPU);
}

TEST_P(OnDevice, TrainsAsOnTheHost) {
  EXPECT_LE(distance(trained(gpu, GetParam()), trained(at::kCPU, {"host"})), 1e-9);
}

/// Samples on the GPU, shuffled in each epoch.
TEST_F(InfinityBatchOnDevice, ShufflesSamplesOfTheGpu) {
  const auto trained_with = [](at::Device device) {
    auto net = mlp(at::kDouble);
    net->to(device);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const Examples data = examples(50);
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                     Data::of_tensors({data.inputs.to(device)}, {data.classes.to(device)},
                                      {.batch = 20, .shuffle = true, .seed = 5}),
                     quiet(7));
    ib(2);
    return infinity::on_device(parameters_of(net), at::kCPU);
  };
  EXPECT_LE(distance(trained_with(gpu), trained_with(at::kCPU)), 1e-9);
}

/// Pinned memory is visible from both sides. Each state is on its parameter's device, after a move too.
TEST_F(InfinityBatchOnDevice, KeepsPinnedStatesWhereTheParametersAre) {
  const auto run = [](at::Device begin, at::Device end, std::optional<TableOptions> home) {
    auto net = mlp(at::kDouble);
    net->to(begin);
    torch::optim::Adam optimizer(net->parameters(), 0.01);
    const Examples data = examples(50);
    auto options = quiet(7);
    options.states_home = std::move(home);
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                     Data(std::vector<Batch>{{data.inputs, data.classes}}), options);
    ib(2);
    ib.change_model_device(end);
    ib(2);
    return infinity::on_device(parameters_of(net), at::kCPU);
  };
  const auto wanted = run(at::kCPU, at::kCPU, {});
  const TableOptions pinned{.placement = Placement::pinned};
  for (const auto begin : {at::Device(at::kCPU), gpu})
    for (const auto end : {at::Device(at::kCPU), gpu})
      EXPECT_LE(distance(run(begin, end, pinned), wanted), 1e-9) << begin << " to " << end;
  EXPECT_THAT(
      [&] { run(at::kCPU, at::kCPU, TableOptions{.placement = Placement::device}); },
      testing::ThrowsMessage<infinity::InfinityBatchError>(testing::HasSubstr("options.states_home")));
}

/// The caller's stream still has to compute the samples when training begins.
TEST_F(InfinityBatchOnDevice, WaitsForSamplesThatTheCallerHasQueued) {
  const auto trained_with = [](at::Device device) {
    auto net = mlp(at::kDouble);
    net->to(device);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const Examples data = examples(50);
    auto options = quiet(7);
    options.prefetch = true;
    const at::Tensor half = (data.inputs * 0.5).to(device), classes = data.classes.to(device);
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                     Data(std::vector<Batch>{{half + half, classes}}), options);
    ib(2);
    return infinity::on_device(parameters_of(net), at::kCPU);
  };
  EXPECT_LE(distance(trained_with(gpu), trained_with(at::kCPU)), 1e-9);
}

/// Inputs and targets go to different GPUs.
TEST_F(InfinityBatchOnDevice, PrefetchesForTwoGpus) {
  if (cuda_status().devices < 2) GTEST_SKIP() << "there is one GPU only";
  Way way{.name = "loss_on_the_other", .prefetch = true, .backward_device = at::Device("cuda:1")};
  EXPECT_LE(distance(trained(gpu, way), trained(at::kCPU, {"host"})), 1e-9);
}

/// Regression test: the prefetching stream was bound to the first GPU that it saw.
TEST_F(InfinityBatchOnDevice, PrefetchesForTheGpuToWhichTheModelMoves) {
  if (cuda_status().devices < 2) GTEST_SKIP() << "there is one GPU only";
  const auto run = [](at::Device begin, at::Device end, bool prefetch) {
    auto net = mlp(at::kDouble);
    net->to(begin);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const Examples data = examples(50);
    auto options = quiet(7);
    options.prefetch = prefetch;
    InfinityBatch ib(net, optimizer, torch::nn::CrossEntropyLoss(),
                     Data(std::vector<Batch>{{data.inputs, data.classes}}), options);
    ib(2);
    ib.change_model_device(end);
    ib(2);
    return infinity::on_device(parameters_of(net), at::kCPU);
  };
  EXPECT_LE(distance(run(gpu, at::Device("cuda:1"), true), run(at::kCPU, at::kCPU, false)), 1e-9);
}

#ifdef SPEEDTORCH_HAS_CUDA

torch::nn::Sequential wide() {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(256, 1024), torch::nn::ReLU(), torch::nn::Linear(1024, 1024),
                            torch::nn::ReLU(), torch::nn::Linear(1024, 10));
  net->to(gpu);
  return net;
}

/// The plain batch runs out of memory; ours finds a size and trains. The examples stay on the host.
TEST_F(InfinityBatchOnDevice, TrainsBeyondTheCapWhereThePlainBatchFails) {
  constexpr std::int64_t samples = 16'384;
  const at::Tensor inputs = at::randn({samples, 256});
  const at::Tensor classes = at::randint(0, 10, {samples}, at::kLong);
  auto net = wide();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const GpuCap cap(80 << 20);
  torch::nn::CrossEntropyLoss criterion;
  EXPECT_FALSE(
      infinity::had_memory_for([&] { criterion(net->forward(inputs.to(gpu)), classes.to(gpu)).backward(); }));
  optimizer.zero_grad();
  InfinityBatch ib(net, optimizer, criterion, Data(std::vector<Batch>{{inputs, classes}}), quiet());
  const auto first = ib.epoch();
  const auto second = ib.epoch();
  EXPECT_GT(first.refusals, 0);
  EXPECT_LT(second.loss, first.loss);
  EXPECT_EQ(second.samples, samples);
  EXPECT_GT(second.micro_batches, 1);
}

/// LibTorch's figures of the GPU.
c10::CachingDeviceAllocator::DeviceStats allocator_figures() {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(gpu.index());
}
constexpr auto all_pools = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

TEST_F(InfinityBatchOnDevice, MemoryMonitorSeesTheCachingAllocatorsBlocks) {
  auto net = wide();
  const at::Tensor inputs = at::randn({20, 256}, at::TensorOptions(gpu));
  const at::Tensor classes = at::randint(0, 10, {20}, at::TensorOptions(gpu).dtype(at::kLong));
  infinity::MemoryMonitor monitor;
  c10::cuda::CUDACachingAllocator::resetPeakStats(gpu.index());
  const auto before = allocator_figures();
  {
    const infinity::MemoryMonitor::Watch watch(monitor);
    torch::nn::CrossEntropyLoss()(net->forward(inputs), classes).backward();
  }
  const auto after = allocator_figures();
  const auto figures = monitor.figures(gpu);
  const auto held = before.allocated_bytes[all_pools].current;
  EXPECT_EQ(figures.bytes, after.allocated_bytes[all_pools].current - held);
  EXPECT_EQ(figures.peak_bytes, after.allocated_bytes[all_pools].peak - held);
  EXPECT_EQ(figures.allocated,
            after.allocation[all_pools].allocated - before.allocation[all_pools].allocated);
  EXPECT_EQ(figures.freed, after.allocation[all_pools].freed - before.allocation[all_pools].freed);
}

TEST_F(InfinityBatchOnDevice, SnapshotShowsTheCachingAllocatorsFigures) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  infinity::MemoryHistory history;
  history.append("before", gpu);
  at::Tensor block = at::empty({30 << 20}, at::TensorOptions(gpu).dtype(at::kByte));
  history.append("with a block", gpu);
  block.reset();
  history.append("without it", gpu);
  infinity::free_cached_memory(gpu);
  history.append("without cache", gpu);
  const auto& shots = history.snapshots();
  const auto held = allocator_figures();
  EXPECT_EQ(shots[3].allocated, held.allocated_bytes[all_pools].current);
  EXPECT_EQ(shots[3].reserved, held.reserved_bytes[all_pools].current);
  EXPECT_EQ(shots[1].allocated - shots[0].allocated, 30 << 20);
  EXPECT_EQ(shots[2].allocated, shots[0].allocated);
  EXPECT_EQ(shots[2].reserved, shots[1].reserved);
  EXPECT_EQ(shots[2].free_cache() - shots[3].free_cache(), 30 << 20);
  EXPECT_THAT(history.to_string(), testing::ContainsRegex("with a block +cuda:0 .* \\+31.5"));
}

/// Registering the pages of each tensor would stall the GPU.
TEST_F(InfinityBatchOnDevice, OffloadsIntoLibTorchsPinnedMemoryAndTakesItAgain) {
  auto net = wide();
  const at::Tensor inputs = at::randn({20, 256}, at::TensorOptions(gpu));
  const at::Tensor classes = at::randint(0, 10, {20}, at::TensorOptions(gpu).dtype(at::kLong));
  auto options = quiet(20);
  options.offload_at_least = 1;
  InfinityBatch ib(options);
  ib.set_model(net);
  ib.set_criterion(torch::nn::CrossEntropyLoss());
  const auto blocks_taken_by_a_batch = [&] {
    const auto pinned = [] { return at::getHostAllocator(at::kCUDA)->get_stats().allocations.allocated; };
    const auto before = pinned();
    ib.backward({inputs, classes});
    return pinned() - before;
  };
  EXPECT_GT(blocks_taken_by_a_batch(), 0);
  EXPECT_EQ(blocks_taken_by_a_batch(), 0);
  EXPECT_GT(ib.offloaded().packed, 0);
}

#endif

}  // namespace
}  // namespace speedtorch::test
