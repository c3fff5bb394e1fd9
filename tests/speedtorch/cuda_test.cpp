#include "speedtorch/cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

TEST(Cuda, StatusSaysWhatIsThereAndWhatIsMissing) {
  const auto& status = cuda_status();
  EXPECT_FALSE(status.found.empty());
  EXPECT_EQ(status.available, status.missing.empty());
  EXPECT_EQ(status.available, status.cure.empty());
  EXPECT_EQ(status.available, status.devices > 0 && status.missing.empty());
}

TEST(Cuda, RequiringItWithoutAGpuNamesWhatNeedsIt) {
  if (cuda_status().available) {
    EXPECT_NO_THROW(require_cuda("a test"));
  } else {
    EXPECT_THAT([] { require_cuda("a test"); },
                testing::ThrowsMessage<PlacementError>(testing::HasSubstr("a test needs CUDA")));
  }
}

TEST(Cuda, SynchronizingWithoutAGpuDoesNothing) {
  EXPECT_NO_THROW(synchronize_cuda(at::Device("cuda:0")));
  if (!cuda_status().available) {
    EXPECT_EQ(cuda_free_bytes(at::Device("cuda:0")), 0);
  }
}

}  // namespace
}  // namespace speedtorch
