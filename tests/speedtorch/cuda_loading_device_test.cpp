/// LibTorch looks for its CUDA library once. A user's first calls may make it look before ours do.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "speedtorch/cuda.h"

namespace speedtorch {
namespace {

/// Starts as the documents' examples do.
void begin_as_users_do() {
  at::manual_seed(1);
  auto weight = at::ones({3}).requires_grad_();
  (weight * 2).sum().backward();
  (void)weight.is_pinned();
}

TEST(CudaIsLoaded, BeforeLibTorchLooksForIt) {
  begin_as_users_do();
  const auto& status = cuda_status();
  if (status.devices == 0) GTEST_SKIP() << status.found << "; missing: " << status.missing;
  EXPECT_TRUE(status.available) << status.missing;
  EXPECT_EQ(at::ones({4}, at::kCUDA).sum().item<float>(), 4);
}

}  // namespace
}  // namespace speedtorch
