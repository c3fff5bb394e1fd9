/// InfinityBatch on a GPU against the same on the host, and beyond a cap on the GPU's memory. Skipped where
/// there is none.
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "speedtorch/cuda.h"
#include "speedtorch/infinity/memory_monitor.h"
#include "speedtorch/infinity/out_of_memory.h"
#include "speedtorch/infinity/random_state.h"
#include "tests/speedtorch/gpu_fixture.h"
#include "tests/speedtorch/infinity/models.h"
#ifdef SPEEDTORCH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
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
  std::optional<Home> states_home = {};
  std::optional<at::Device> backward_device = {};
};

class OnDevice : public InfinityBatchOnDevice, public testing::WithParamInterface<Way> {};
INSTANTIATE_TEST_SUITE_P(
    InfinityBatch, OnDevice,
    testing::Values(Way{"plain"}, Way{"whole", 50}, Way{.name = "prefetched", .prefetch = true},
                    Way{.name = "offloaded", .offload_at_least = 1},
                    Way{.name = "pinned_states", .states_home = Home{.placement = Placement::pinned}},
                    Way{.name = "loss_on_the_host", .backward_device = at::Device(at::kCPU)}),
    [](const auto& way) { return way.param.name; });

/// Parameters after three epochs by Adam, on the host.
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

/// Samples that are on the GPU and drawn anew each epoch.
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

/// Pinned memory is seen from both: each state is on its parameter's side, also after a move.
TEST_F(InfinityBatchOnDevice, KeepsPinnedStatesWhereTheParametersAre) {
  const auto run = [](at::Device begin, at::Device end, std::optional<Home> home) {
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
  const Home pinned{.placement = Placement::pinned};
  for (const auto begin : {at::Device(at::kCPU), gpu})
    for (const auto end : {at::Device(at::kCPU), gpu})
      EXPECT_LE(distance(run(begin, end, pinned), wanted), 1e-9) << begin << " to " << end;
  EXPECT_THAT(
      [&] { run(at::kCPU, at::kCPU, Home{.placement = Placement::device}); },
      testing::ThrowsMessage<infinity::InfinityBatchError>(testing::HasSubstr("options.states_home")));
}

/// Samples that the caller's stream is still to make when training begins.
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

/// Inputs go to one GPU and targets to the other.
TEST_F(InfinityBatchOnDevice, PrefetchesForTwoGpus) {
  if (cuda_status().devices < 2) GTEST_SKIP() << "there is one GPU only";
  Way way{.name = "loss_on_the_other", .prefetch = true, .backward_device = at::Device("cuda:1")};
  EXPECT_LE(distance(trained(gpu, way), trained(at::kCPU, {"host"})), 1e-9);
}

/// The stream of the prefetching thread was bound to the GPU that it saw first.
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

/// In the output of the first pass an input of ones shows the mask, and so does its gradient.
TEST_F(InfinityBatchOnDevice, DrawsTheSameInBothPasses) {
  torch::nn::Sequential net(torch::nn::Dropout(0.5));
  at::Tensor inputs = at::ones({40, 30}, at::TensorOptions(gpu)).requires_grad_();
  InfinityBatch ib(quiet(7));
  ib.set_model(Model(Tensors{at::ones({1}, at::TensorOptions(gpu)).requires_grad_()},
                     [net](const at::Tensor& in) mutable { return net->forward(in); }));
  const at::Tensor outputs = ib.batch(inputs);
  at::rand({7}, at::TensorOptions(gpu));  // somebody draws in between
  outputs.sum().backward();
  EXPECT_TRUE(inputs.grad().equal(outputs.detach()));
}

#ifdef SPEEDTORCH_HAS_CUDA

/// So much of the GPU's memory beyond what is held now, while it lives.
class Cap {
 public:
  explicit Cap(std::int64_t bytes) {
    c10::cuda::CUDACachingAllocator::emptyCache();
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const auto most = static_cast<double>(held() + bytes) / static_cast<double>(total);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(most, gpu.index());
  }
  ~Cap() { c10::cuda::CUDACachingAllocator::setMemoryFraction(1, gpu.index()); }
  Cap(const Cap&) = delete;
  Cap& operator=(const Cap&) = delete;

  static std::int64_t held() {
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return c10::cuda::CUDACachingAllocator::getDeviceStats(gpu.index()).reserved_bytes[all].current;
  }
};

torch::nn::Sequential wide() {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(256, 1024), torch::nn::ReLU(), torch::nn::Linear(1024, 1024),
                            torch::nn::ReLU(), torch::nn::Linear(1024, 10));
  net->to(gpu);
  return net;
}

/// Where the plain batch runs out of memory, ours finds a size and trains; the examples stay on the host.
TEST_F(InfinityBatchOnDevice, TrainsBeyondTheCapWhereThePlainBatchFails) {
  constexpr std::int64_t samples = 65'536;
  const at::Tensor inputs = at::randn({samples, 256});
  const at::Tensor classes = at::randint(0, 10, {samples}, at::kLong);
  auto net = wide();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const Cap cap(200 << 20);
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

TEST_F(InfinityBatchOnDevice, MemoryMonitorSeesTheCachingAllocatorsBlocks) {
  infinity::MemoryMonitor monitor;
  {
    const infinity::MemoryMonitor::Watch watch(monitor);
    const at::Tensor block = at::empty({1 << 20}, at::TensorOptions(gpu).dtype(at::kByte));
  }
  EXPECT_GE(monitor.figures(gpu).peak_bytes, 1 << 20);
  EXPECT_EQ(monitor.figures(gpu).bytes, 0);
}

#endif

}  // namespace
}  // namespace speedtorch::test
