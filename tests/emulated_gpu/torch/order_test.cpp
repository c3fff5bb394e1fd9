// LibTorch's operators run in the order of their stream and not before something waits for it. So programs
// that forget a wait get wrong results, and errors come when they come on a GPU.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulated_gpu/emulated_gpu.h"
#include "tests/emulated_gpu/torch/trial.h"

namespace emulated_gpu {
namespace {

const auto kGpu = at::TensorOptions().device(at::kCUDA, 0).dtype(at::kFloat);

bool streams_are_lazy() {
  const char* const mode = std::getenv("EMULATED_GPU_STREAMS");
  return mode == nullptr || std::strcmp(mode, "lazy") == 0;
}

/// Returns the number that lies in the device's memory now, without waiting for anything.
float now_in(const at::Tensor& tensor) {
  float value = 0;
  std::memcpy(&value, emulated_gpu_bytes(tensor.data_ptr()), sizeof value);
  return value;
}

class Order : public testing::Test {
 protected:
  void SetUp() override {
    load_cuda();
    if (!streams_are_lazy()) GTEST_SKIP() << "eager streams hide missing waits";
    if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr)
      GTEST_SKIP() << "without the caching allocator each tensor that is freed waits for the device";
    side_.emplace(c10::cuda::getStreamFromPool());
  }
  /// Makes a tensor of ones that is there for all streams.
  static at::Tensor ready_ones() {
    auto ones = at::ones({100}, kGpu);
    c10::cuda::device_synchronize();
    return ones;
  }
  c10::cuda::CUDAStream& side() { return *side_; }

 private:
  std::optional<c10::cuda::CUDAStream> side_;
};

TEST_F(Order, NothingRunsBeforeSomethingWaits) {
  const auto ones = ready_ones();
  const auto more = ones + 1;
  EXPECT_NE(now_in(more), 2);
  c10::cuda::getCurrentCUDAStream().synchronize();
  EXPECT_EQ(now_in(more), 2);
}

TEST_F(Order, InPlaceOperatorsRunLateToo) {
  const auto ones = ready_ones();
  ones.mul_(3).index_put_({at::zeros({1}, kGpu.dtype(at::kLong))}, at::scalar_tensor(7));
  EXPECT_EQ(now_in(ones), 1);
  EXPECT_EQ(ones[0].item<float>(), 7);
  EXPECT_EQ(ones[1].item<float>(), 3);
}

TEST_F(Order, OperatorsThatNeedValuesWaitAndTheirResultsStillComeLate) {
  auto ones = ready_ones();
  ones.mul_(2);
  const auto where = ones.nonzero();
  EXPECT_EQ(now_in(ones), 2);
  EXPECT_EQ(where.size(0), 100);
  const auto selected = ones.masked_select(ones > 1);
  EXPECT_NE(now_in(selected), 2);
  EXPECT_EQ(selected.sum().item<float>(), 200);
}

TEST_F(Order, AMissingWaitBeforeAnOperatorIsFound) {
  const auto ones = ready_ones();
  ones.mul_(5);  // on the default stream
  at::Tensor copy;
  {
    const c10::cuda::CUDAStreamGuard guard(side());
    copy = ones + 0;
    side().synchronize();
    EXPECT_EQ(now_in(copy), 1);  // the old values
  }
  c10::cuda::device_synchronize();
}

TEST_F(Order, AWaitBeforeAnOperatorIsEnough) {
  const auto ones = ready_ones();
  ones.mul_(5);
  c10::Event done(c10::DeviceType::CUDA);
  done.record(c10::cuda::getCurrentCUDAStream().unwrap());
  const c10::cuda::CUDAStreamGuard guard(side());
  done.block(side().unwrap());
  const auto copy = ones + 0;
  side().synchronize();
  EXPECT_EQ(now_in(copy), 5);
}

TEST_F(Order, AMissingWaitAfterAnOperatorIsFound) {
  auto ones = ready_ones();
  {
    const c10::cuda::CUDAStreamGuard guard(side());
    ones.mul_(5);
  }
  EXPECT_EQ(ones.sum().item<float>(), 100);
  c10::cuda::device_synchronize();
  EXPECT_EQ(ones.sum().item<float>(), 500);
}

TEST_F(Order, AMissingWaitForAnOperatorOfUnknownSizeIsFound) {
  const auto ones = ready_ones();
  at::Tensor selected;
  {
    const c10::cuda::CUDAStreamGuard guard(side());
    selected = ones.masked_select(ones > 0);
  }
  EXPECT_NE((selected + 0).sum().item<float>(), 100);
  c10::cuda::device_synchronize();
  EXPECT_EQ(selected.sum().item<float>(), 100);
}

TEST_F(Order, AHostReadWithoutAWaitFindsTheOldBytes) {
  const auto ones = ready_ones();
  auto host = at::zeros({100}, at::TensorOptions().pinned_memory(true));
  host.copy_(ones * 4, /*non_blocking=*/true);
  EXPECT_EQ(host[0].item<float>(), 0);
  c10::cuda::device_synchronize();
  EXPECT_EQ(host[0].item<float>(), 4);
}

TEST_F(Order, MemoryThatIsUsedAgainTooEarlyIsFound) {
  auto ones = ready_ones();
  at::Tensor sum;
  {
    const c10::cuda::CUDAStreamGuard guard(side());
    sum = ones.sum();  // without ones.record_stream(side)
  }
  const auto* const address = ones.data_ptr();
  ones = at::Tensor();
  const auto other = at::full({100}, 9, kGpu);
  ASSERT_EQ(other.data_ptr(), address);
  c10::cuda::getCurrentCUDAStream().synchronize();
  side().synchronize();
  EXPECT_EQ(now_in(sum), 900);
}

TEST_F(Order, RecordStreamKeepsMemory) {
  auto ones = ready_ones();
  at::Tensor sum;
  {
    const c10::cuda::CUDAStreamGuard guard(side());
    sum = ones.sum();
    ones.record_stream(side().unwrap());
  }
  ones = at::Tensor();
  const auto other = at::full({100}, 9, kGpu);
  c10::cuda::device_synchronize();
  EXPECT_EQ(now_in(sum), 100);
}

TEST_F(Order, CapturedOperatorsRunAtEachReplay) {
  const auto ones = ready_ones();
  const c10::cuda::CUDAStreamGuard guard(side());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(side(), cudaStreamCaptureModeRelaxed), cudaSuccess);
  ones.add_(1).mul_(2);
  ASSERT_EQ(cudaStreamEndCapture(side(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  side().synchronize();
  EXPECT_EQ(now_in(ones), 1);
  for (const float want : {4.0f, 10.0f}) {
    ASSERT_EQ(cudaGraphLaunch(replay, side()), cudaSuccess);
    side().synchronize();
    EXPECT_EQ(now_in(ones), want);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

class Calls : public testing::Test {
  void SetUp() override { load_cuda(); }
};

TEST_F(Calls, MixedDevicesAreRefused) {
  const auto gpu = at::ones({3}, kGpu), host = at::ones({3});
  EXPECT_THROW(gpu + host, c10::Error);
  EXPECT_THROW(at::mm(gpu.view({1, 3}), host.view({3, 1})), c10::Error);
  EXPECT_THROW(at::cat({gpu, host}), c10::Error);
  EXPECT_THROW(gpu.index_select(0, at::tensor({1}, at::kLong)), c10::Error);
  EXPECT_NO_THROW(gpu + at::scalar_tensor(2));
  EXPECT_NO_THROW(gpu.index({at::tensor({1}, at::kLong)}));
}

TEST_F(Calls, WrongShapesAreRefusedAtTheCall) {
  const auto x = at::ones({3, 4}, kGpu);
  EXPECT_THROW(x + at::ones({5}, kGpu), c10::Error);
  EXPECT_THROW(at::mm(x, x), c10::Error);
  EXPECT_THROW(at::conv2d(x, x), c10::Error);
  EXPECT_THROW(x.view({5}), c10::Error);
  EXPECT_THROW(x.index_select(7, at::ones({1}, kGpu.dtype(at::kLong))), c10::Error);
}

TEST_F(Calls, SeedsDecideRandomNumbers) {
  const auto draw = [] {
    return at::cat({at::rand({50}, kGpu), at::randn({50}, kGpu), at::randperm(20, kGpu)}).cpu();
  };
  at::manual_seed(5);
  const auto first = draw(), second = draw();
  at::manual_seed(5);
  const auto again = draw();
  EXPECT_TRUE(at::equal(first, again));
  EXPECT_FALSE(at::equal(first, second));
}

TEST_F(Calls, TheHostsGeneratorIsLeftAlone) {
  at::manual_seed(5);
  const auto want = at::rand({4});
  at::manual_seed(5);
  const auto x = at::ones({1000}, kGpu);
  const auto dropped = at::dropout(x, 0.25, true).cpu();
  at::rand({9}, kGpu).cpu();
  EXPECT_TRUE(at::equal(at::rand({4}), want));
  EXPECT_NEAR(dropped.eq(0).sum().item<double>(), 250, 60);
}

/// LibTorch has it on GPUs only.
TEST_F(Calls, FusedDropoutKeepsAndScalesWhatItsMaskNames) {
  const auto x = at::arange(1, 1001, kGpu).requires_grad_(true);
  const auto [kept, mask] = at::_fused_dropout(x, 0.75);
  EXPECT_NEAR(mask.sum().item<double>(), 750, 60);
  const auto wanted = (x.detach().cpu() * mask.cpu()) / 0.75;
  EXPECT_TRUE(at::allclose(kept.detach().cpu(), wanted));
  kept.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad().cpu(), mask.cpu().to(at::kFloat) / 0.75));
}

TEST_F(Calls, CompressedSparseTensorsAreRefusedByName) {
  const auto refused = [](const std::function<void()>& use, const std::string& words) {
    try {
      use();
    } catch (const c10::NotImplementedError& error) {
      return std::string(error.what()).find(words) != std::string::npos;
    }
    return false;
  };
  const auto x = at::eye(3, kGpu);
  EXPECT_TRUE(refused([&] { x.to_sparse_csr().mm(x).cpu(); }, "the emulated GPU has no"));
  const auto csr = at::sparse_csr_tensor(at::tensor({0, 1, 2}, at::kInt), at::tensor({0, 1}, at::kInt),
                                         at::ones({2}), {2, 2}, at::TensorOptions().layout(at::kSparseCsr));
  EXPECT_TRUE(refused([&] { csr.to(at::kCUDA).mm(at::ones({2, 2}, kGpu)); }, "no compressed sparse tensors"));
}

TEST_F(Calls, AGeneratorOfTheHostIsRefused) {
  auto host = at::make_generator<at::CPUGeneratorImpl>();
  EXPECT_THROW(at::empty({3}, kGpu).normal_(0, 1, host), c10::Error);
}

TEST_F(Calls, ObserversSeeNoOperatorsInsideAKernel) {
  static std::vector<std::string> seen;
  seen.clear();
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function)
                                                           -> std::unique_ptr<at::ObserverContext> {
                              seen.emplace_back(function.name());
                              return nullptr;
                            }).scopes({at::RecordScope::FUNCTION}));
  const auto x = at::ones({4, 4}, kGpu);
  seen.clear();
  const auto y = x.std();
  c10::cuda::device_synchronize();
  at::removeCallback(handle);
  EXPECT_EQ(seen, std::vector<std::string>{"aten::std"});
}

TEST_F(Calls, DeferredWorkHoldsNoMemory) {
  const auto before = c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  { const auto x = at::ones({1000}, kGpu) + 1; }
  EXPECT_EQ(c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current, before);
  c10::cuda::device_synchronize();
}

// The fault stays until the process ends, so it gets a process of its own.
TEST_F(Calls, AnIndexOutOfRangeIsAFaultOfTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = []() noexcept {
    const auto x = at::ones({3, 4}, kGpu);
    const auto y = x.index_select(0, at::full({1}, 99, kGpu.dtype(at::kLong)));
    c10::cuda::device_synchronize();
  };
  EXPECT_DEATH(fail(), "index_select: index out of range(.|\n)*device-side assert");
}

}  // namespace
}  // namespace emulated_gpu
