/// A process that uses the second of two GPUs only.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>

#include "speedtorch/memory/memory.h"
#include "tests/speedtorch/gpu_fixture.h"

namespace speedtorch {
namespace {

class SecondGpu : public test::NeedsTwoGpus {};

TEST_F(SecondGpu, MakesNoContextOnTheFirst) {
  constexpr std::int64_t bytes = 1 << 20;
  const at::Device second("cuda:1");
  {
    const auto pinned = allocate(Placement::pinned, bytes, second);
    const auto on_gpu = allocate(Placement::device, bytes, second);
    pinned->tensor({8}, at::kFloat).fill_(1);
  }
  EXPECT_TRUE(c10::cuda::hasPrimaryContext(1));
  EXPECT_FALSE(c10::cuda::hasPrimaryContext(0));
}

}  // namespace
}  // namespace speedtorch
