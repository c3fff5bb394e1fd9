/// A file that a GPU reads in place, or that is staged for it. Not yet run on a GPU.
#include "speedtorch/files/pinned_file.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/files/mapped_file.h"
#include "speedtorch/rows/rows.h"
#include "tests/harness/temporary_folder.h"

#ifdef SPEEDTORCH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

#ifdef SPEEDTORCH_HAS_CUDA
class DevicePinnedFiles : public testing::TestWithParam<Access> {
 protected:
  void SetUp() override {
    if (!cuda_status().available) GTEST_SKIP() << cuda_refusal("a file that a GPU reads in place");
    MappedFile::create(path(), {1000, 33}, at::kFloat, [&](at::Tensor& array) { array.copy_(values_); });
  }
  [[nodiscard]] std::string path() const { return (folder_.path() / "table.npy").string(); }

  stbench::test::TemporaryFolder folder_;
  at::Tensor values_ = at::rand({1000, 33});
};

TEST_P(DevicePinnedFiles, AreReadInPlaceOrSayWhyNot) {
  const at::Device device("cuda:0");
  auto pinned = MappedFile::open(path(), GetParam())->pin(device);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "nothing is left behind";
  int can = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&can, cudaDevAttrHostRegisterReadOnlySupported, 0), cudaSuccess);
  if (pinned.memory == nullptr) {
    EXPECT_THAT(pinned.reason, StartsWith("staged: "));
    EXPECT_EQ(can == 0, pinned.reason.find("only read") != std::string::npos) << pinned.reason;
    GTEST_SKIP() << pinned.reason;
  }
  EXPECT_THAT(pinned.reason, StartsWith("in place"));
  EXPECT_NE(can, 0);
  EXPECT_EQ(pinned.memory->device(), device);
  const auto table = pinned.memory->tensor({1000, 33}, at::kFloat);
  const auto index = at::randint(1000, {3000}, at::kLong);
  auto out = at::zeros({3000, 33}, table.options());
  gather_rows(table, index.to(device), out);
  check_index_errors(device);
  EXPECT_TRUE(at::equal(out.cpu(), values_.index_select(0, index)));
}

TEST_P(DevicePinnedFiles, LiveAsLongAsTheirLastTensor) {
  at::Tensor table;
  std::weak_ptr<MappedFile> watched;
  {
    const auto file = MappedFile::open(path(), GetParam());
    watched = file;
    const auto pinned = file->pin(at::Device("cuda:0"));
    if (pinned.memory == nullptr) GTEST_SKIP() << pinned.reason;
    table = pinned.memory->tensor({1000, 33}, at::kFloat);
  }
  EXPECT_FALSE(watched.expired());
  EXPECT_TRUE(at::equal(table.cpu(), values_));
  table.reset();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

/// The driver accepts one registration of the same pages: without sharing, the second caller got an error.
TEST_P(DevicePinnedFiles, ShareOneRegistrationOfTheSamePages) {
  const auto file = MappedFile::open(path(), GetParam());
  auto first = file->pin(at::Device("cuda:0"));
  if (first.memory == nullptr) GTEST_SKIP() << first.reason;
  const auto second = file->pin(at::Device(at::kCUDA));
  ASSERT_NE(second.memory, nullptr) << second.reason;
  const auto table = second.memory->tensor({1000, 33}, at::kFloat);
  first.memory.reset();
  EXPECT_TRUE(at::equal(table.cpu(), values_));
}

/// Someone else has registered the pages: the driver refuses them, and nothing of ours is left.
TEST_P(DevicePinnedFiles, AreStagedIfTheDriverRefuses) {
  const auto file = MappedFile::open(path(), GetParam());
  auto* const pages = file->data() - reinterpret_cast<std::uintptr_t>(file->data()) % 4096;
  ASSERT_EQ(cudaHostRegister(pages, 4096, cudaHostRegisterReadOnly | cudaHostRegisterMapped), cudaSuccess);
  const auto second = file->pin(at::Device("cuda:0"));
  EXPECT_EQ(cudaHostUnregister(pages), cudaSuccess);
  EXPECT_EQ(second.memory, nullptr);
  EXPECT_THAT(second.reason, HasSubstr("cudaHostRegister"));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

INSTANTIATE_TEST_SUITE_P(Access, DevicePinnedFiles, testing::Values(Access::read_only, Access::read_write),
                         [](const auto& test) {
                           return test.param == Access::read_only ? "read_only" : "read_write";
                         });
#else
TEST(DevicePinnedFiles, NeedCuda) { GTEST_SKIP() << "this program was built without CUDA"; }
#endif

}  // namespace
}  // namespace speedtorch
