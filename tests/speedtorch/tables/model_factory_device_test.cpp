/// Needs a GPU; without one each test is skipped with the reason.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "speedtorch/tables/model_factory.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

class DeviceModelFactory : public test::NeedsGpu, public testing::WithParamInterface<Placement> {
 protected:
  [[nodiscard]] static TableOptions options() {
    return {.placement = GetParam(), .device = needs_cuda(GetParam()) ? at::Device("cuda:0") : at::kCPU};
  }
};

/// With its tables on the host, SpeedTorch left the model's weight on the host.
TEST_P(DeviceModelFactory, TheParameterIsOnTheModelsDeviceAndTrains) {
  auto weight = at::zeros({1, 6}, at::TensorOptions().device("cuda:0")).requires_grad_();
  ModelFactory factory(weight, 40, options());
  factory.normal_init(0, 1, 11);
  auto whole = factory.host_copy();
  torch::optim::SGD sgd({weight}, 0.1);
  for (int step = 0; step < 10; ++step) {
    const auto index = at::randint(0, 20, {24}, at::kLong);
    factory.before_forward_pass(index);
    EXPECT_TRUE(weight.device().is_cuda());
    EXPECT_TRUE(factory.positions().positives.device().is_cuda());
    at::embedding(weight, factory.positions().positives).sum().backward();
    sgd.step();
    factory.after_optimizer_step();
    whole.index_add_(0, index, at::full({24, 6}, -0.1));
  }
  EXPECT_TRUE(at::allclose(factory.host_copy(), whole, 1e-5, 1e-5));
}

TEST_P(DeviceModelFactory, SavesAndLoads) {
  const stbench::test::TemporaryFolder folder;
  const auto path = (folder.path() / "t").string();
  ModelFactory factory(at::zeros({1, 6}, at::TensorOptions().device("cuda:0")).requires_grad_(), 40,
                       options());
  factory.normal_init(0, 1, 11);
  const auto before = factory.host_copy();
  factory.save_npy(path);
  factory.zeros_init();
  factory.load_npy(path);
  EXPECT_TRUE(at::equal(factory.host_copy(), before));
  factory.save_torch(path);
  factory.zeros_init();
  factory.load_torch(path);
  EXPECT_TRUE(at::equal(factory.host_copy(), before));
}

INSTANTIATE_TEST_SUITE_P(Placements, DeviceModelFactory,
                         testing::Values(Placement::libtorch, Placement::hugepage, Placement::mapped,
                                         Placement::pinned, Placement::device),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace speedtorch
