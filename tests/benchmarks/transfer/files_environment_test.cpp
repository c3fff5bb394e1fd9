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

reports::Identity rows_of_a_file(const std::string& device, const std::string& method) {
  reports::Identity id;
  id.suite = "transfer", id.direction = "to", id.placement = "mapped", id.method = method, id.device = device;
  id.dtype = "float32", id.index_dtype = "int64", id.distribution = "unique";
  id.rows = 1000, id.dim = 16, id.batch = 10, id.cores = 1;
  id.axes = {{"cache", std::string("warm")}, {"callers", std::int64_t{1}}};
  return id;
}

TEST(FilesEnvironment, SaysNothingOfOtherTables) {
  auto id = rows_of_a_file("cuda:0", "speedtorch");
  id.placement = "pinned";
  EXPECT_TRUE(files_environment({id}).empty());
  EXPECT_TRUE(files_environment({rows_of_a_file("cpu", "speedtorch")}).empty());
}

TEST(FilesEnvironment, SaysHowFileRowsReads) {
  const auto found = files_environment({rows_of_a_file("cpu", "file_rows")});
  EXPECT_EQ(found.contains("reason"), found.at("reads") == "advice");
}

TEST(FilesEnvironment, SaysWhichWayAGpuTakesAndWhy) {
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

TEST(InPlace, IsPlannedForWarmFilesOnAGpuAndWaivedWithTheReasonWhereRowsAreStaged) {
  const auto& method = *std::ranges::find(methods(), "in_place", &Method::name);
  const auto id = rows_of_a_file("cuda:0", "in_place");
  EXPECT_TRUE(method.supports(id));
  auto other = id;
  other.device = "cpu";
  EXPECT_FALSE(method.supports(other));
  other = id, other.direction = "from";
  EXPECT_FALSE(method.supports(other)) << "the file is registered for reading";
  other = id, other.placement = "pinned";
  EXPECT_FALSE(method.supports(other));
  EXPECT_EQ(method.skip_reason(id), speedtorch::in_place_refusal(1000 * 16 * 4, at::Device("cuda:0")));
  EXPECT_TRUE(speedtorch::cuda_status().available || !method.skip_reason(id).empty());
}

TEST(InPlace, IsAskedOfGpusOnly) {
  EXPECT_THROW((void)speedtorch::in_place_refusal(1, at::kCPU), speedtorch::PlacementError);
}

}  // namespace
}  // namespace stbench
