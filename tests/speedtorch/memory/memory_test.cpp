#include "speedtorch/memory/memory.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class HostPlacements : public testing::TestWithParam<Placement> {};

TEST_P(HostPlacements, IsWritableToTheLastByteAndSeenAsATensor) {
  const std::int64_t bytes = (std::int64_t{3} << 20) + 4;
  const auto memory = allocate(GetParam(), bytes);
  EXPECT_EQ(memory->placement(), GetParam());
  EXPECT_EQ(memory->bytes(), bytes);
  EXPECT_TRUE(memory->on_host());
  std::memset(memory->data(), 0x11, static_cast<std::size_t>(bytes));
  const auto tensor = memory->tensor({bytes / 4}, at::kInt);
  EXPECT_EQ(tensor.data_ptr(), memory->data());
  EXPECT_TRUE(tensor.device().is_cpu());
  EXPECT_TRUE((tensor == 0x11111111).all().item<bool>());
}

TEST_P(HostPlacements, LivesAsLongAsItsLastTensor) {
  std::weak_ptr<Memory> watched;
  at::Tensor tensor;
  {
    const auto memory = allocate(GetParam(), 4096);
    watched = memory;
    tensor = memory->tensor({1024}, at::kFloat).fill_(2.0);
  }
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(tensor.sum().item<float>(), 2048.0F);
  tensor.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_P(HostPlacements, ATensorLargerThanTheMemoryIsRefused) {
  const auto memory = allocate(GetParam(), 4096);
  EXPECT_THAT([&] { (void)memory->tensor({1025}, at::kFloat); },
              ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr("4100"), HasSubstr("4096"))));
}

INSTANTIATE_TEST_SUITE_P(All, HostPlacements,
                         testing::Values(Placement::libtorch, Placement::pageable, Placement::hugepage,
                                         Placement::mapped),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(Memory, AMappedFileHasNoName) {
  const auto folder = std::filesystem::temp_directory_path() / "stbench-mapped-test";
  std::filesystem::create_directories(folder);
  {
    const auto memory = allocate(Placement::mapped, 1 << 20, at::kCPU, folder.string());
    std::memset(memory->data(), 1, 1 << 20);
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove(folder);
}

TEST(Memory, RefusalsNameTheBytes) {
  EXPECT_THAT([] { allocate(Placement::mapped, 4096, at::kCPU, "/no/such/folder"); },
              ThrowsMessage<MemoryError>(testing::AllOf(HasSubstr("4096"), HasSubstr("/no/such/folder"))));
  EXPECT_THAT([] { allocate(Placement::pageable, std::int64_t{1} << 60); },
              ThrowsMessage<MemoryError>(HasSubstr("1152921504606846976")));
  EXPECT_THROW(allocate(Placement::pageable, 0), MemoryError);
}

TEST(Memory, CudaPlacementsWithoutAGpuSayWhatIsMissing) {
  if (cuda_status().available) GTEST_SKIP() << "there is a GPU: rows_device_test covers its placements";
  for (const auto placement : {Placement::pinned, Placement::device}) {
    EXPECT_THAT([&] { allocate(placement, 4096, at::Device("cuda:0")); },
                ThrowsMessage<PlacementError>(testing::AllOf(HasSubstr("needs CUDA"), HasSubstr("missing"))));
  }
}

}  // namespace
}  // namespace speedtorch
