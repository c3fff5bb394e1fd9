/// The cap on what a step takes of a GPU's memory. Needs two GPUs; the second has less memory than the first
/// (tests/emulated_gpu/CMakeLists.txt).
#include "benchmarks/infinitybatch/memory_cap.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cstdint>

#include "tests/speedtorch/gpu_fixture.h"

namespace stbench {
namespace {

class GpuMemoryCap : public speedtorch::test::NeedsTwoGpus {};

constexpr std::int64_t mebibyte = 1 << 20;

at::Tensor bytes_on(at::Device device, std::int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
}

/// LibTorch takes segments of the driver, of which a step uses a part: the cap counts segments.
TEST_F(GpuMemoryCap, PeakOfAStepIsEnoughToRepeatIt) {
  for (const auto device : {at::Device("cuda:0"), at::Device("cuda:1")}) {
    MemoryCap cap(device);
    const auto step = [&] { return bytes_on(device, 3 * mebibyte / 2); };
    cap.hold(0);
    step();
    const auto taken = cap.release();
    EXPECT_GE(taken, 3 * mebibyte / 2);
    cap.hold(taken);
    EXPECT_NO_THROW(step());
    EXPECT_THROW(bytes_on(device, taken + mebibyte), c10::OutOfMemoryError);
    EXPECT_EQ(cap.release(), taken);
    EXPECT_NO_THROW(bytes_on(device, 2 * taken)) << "the cap is over";
    cap.empty_cache();
  }
}

/// Of the GPU that it is for, whichever the thread works on.
TEST_F(GpuMemoryCap, CountsTheBytesOfItsGpuOnly) {
  ASSERT_EQ(c10::cuda::current_device(), 0);
  const at::Device second("cuda:1");
  MemoryCap cap(second);
  cap.hold(64 * mebibyte);
  EXPECT_NO_THROW(bytes_on(second, 60 * mebibyte));
  EXPECT_THROW(bytes_on(second, 80 * mebibyte), c10::OutOfMemoryError);
  EXPECT_EQ(cap.release(), 60 * mebibyte);
  cap.empty_cache();
}

}  // namespace
}  // namespace stbench
