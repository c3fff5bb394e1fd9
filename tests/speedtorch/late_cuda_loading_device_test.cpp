/// A program that postpones loading LibTorch's CUDA library and then makes LibTorch look for it first.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "speedtorch/cuda.h"

bool speedtorch::loads_cuda_before_main() { return false; }

namespace speedtorch {
namespace {

TEST(CudaThatIsLoadedLate, IsNotCalledAvailable) {
  at::manual_seed(1);
  const auto& status = cuda_status();
  if (status.devices == 0) GTEST_SKIP() << status.found << "; missing: " << status.missing;
  EXPECT_FALSE(status.available);
  EXPECT_THAT(status.missing, testing::HasSubstr("in time"));
  EXPECT_THAT(status.cure, testing::HasSubstr("cuda_status() first"));
}

}  // namespace
}  // namespace speedtorch
