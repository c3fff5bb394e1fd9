#include "benchmarks/transfer/files_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "benchmarks/transfer/method.h"
#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/files/pinned_file.h"

namespace stbench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TransferCase rows_of_a_file(const char* device, const char* method) {
  return {.direction = Direction::to,
          .placement = speedtorch::Placement::mapped,
          .method = &method_named(method),
          .device = at::Device(device),
          .distribution = "unique",
          .rows = 1000,
          .dim = 16,
          .batch = 10,
          .cores = 1};
}

TEST(FilesEnvironment, IsEmptyForOtherTables) {
  auto one = rows_of_a_file("cuda:0", "speedtorch");
  one.placement = speedtorch::Placement::pinned;
  EXPECT_TRUE(files_environment({one}).empty());
  EXPECT_TRUE(files_environment({rows_of_a_file("cpu", "speedtorch")}).empty());
}

TEST(FilesEnvironment, TellsHowFileRowsReads) {
  const auto found = files_environment({rows_of_a_file("cpu", "file_rows")});
  EXPECT_EQ(found.contains("reason"), found.at("reads") == "advice");
}

TEST(FilesEnvironment, TellsHowAGpuReadsAndWhy) {
  const auto found = files_environment({rows_of_a_file("cuda:0", "staged"), rows_of_a_file("cpu", "mmap")});
  ASSERT_EQ(found.size(), 1U);
  const auto way = found.at("to_cuda:0").get<std::string>();
  if (speedtorch::cuda_status().available) {
    EXPECT_TRUE(way.starts_with("in place: ") || way.starts_with("staged: ")) << way;
  } else {
    EXPECT_THAT(way, StartsWith("staged: "));
    EXPECT_THAT(way, HasSubstr(speedtorch::cuda_status().missing));
  }
}

TEST(InPlace, SupportsWarmFilesOnAGpuAndGivesTheReasonForStaging) {
  const auto& method = method_named("in_place");
  const auto one = rows_of_a_file("cuda:0", "in_place");
  EXPECT_TRUE(method.supports(one));
  auto other = one;
  other.device = at::kCPU;
  EXPECT_FALSE(method.supports(other));
  other = one, other.direction = Direction::from;
  EXPECT_FALSE(method.supports(other)) << "the file is registered for reading";
  other = one, other.placement = speedtorch::Placement::pinned;
  EXPECT_FALSE(method.supports(other));
  EXPECT_EQ(method.skip_reason(one), speedtorch::in_place_refusal(1000 * 16 * 4, at::Device("cuda:0")));
  EXPECT_TRUE(speedtorch::cuda_status().available || !method.skip_reason(one).empty());
}

TEST(InPlace, RefusalThrowsForTheCpu) {
  EXPECT_THROW((void)speedtorch::in_place_refusal(1, at::kCPU), speedtorch::PlacementError);
}

}  // namespace
}  // namespace stbench
