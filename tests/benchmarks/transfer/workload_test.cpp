#include "benchmarks/transfer/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/errors.h"

namespace stbench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Counts = std::vector<std::int64_t>;

harness::Machine machine_of(std::int64_t memory) {
  harness::Machine machine;
  machine.memory_total = machine.memory_available = memory;
  return machine;
}

Options of(const std::string& workload) {
  Options options;
  options.workloads = {workload}, options.placements = {"pageable", "hugepage"};
  return options;
}

TEST(Workload, OptionsStayWithoutAWorkload) {
  Options options;
  options.rows = {7};
  const auto runs = workload_runs(options, machine_of(1 << 30));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].options.rows, Counts{7});
  EXPECT_TRUE(runs[0].options.row_bytes.empty());
  EXPECT_EQ(workload_environment(runs).size(), 0U);
}

TEST(Workload, LargeMachineRunsTheFullWorkload) {
  const auto runs = workload_runs(of("gnn-igb"), machine_of(std::int64_t{1} << 44));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].options.rows, Counts{269'346'174});
  EXPECT_EQ(runs[0].options.row_bytes, Counts{4096});
  EXPECT_EQ(runs[0].options.batches, Counts{164'864});
  EXPECT_EQ(runs[0].scale, "");
}

TEST(Workload, RowsAreHalvedUntilTablesFitWidthsAreNot) {
  // 16 GiB: a quarter is for the tables of two placements, so 2 GiB each, 524,288 rows of 4,096 bytes.
  const auto runs = workload_runs(of("gnn-igb"), machine_of(std::int64_t{16} << 30));
  EXPECT_EQ(runs[0].options.rows, Counts{269'346'174 / 1024});
  EXPECT_EQ(runs[0].options.row_bytes, Counts{4096});
  // Four tensors a batch in the same 2 GiB: 131,072 rows at the most.
  EXPECT_EQ(runs[0].options.batches, Counts{82'432});
  EXPECT_EQ(runs[0].scale,
            "263,033 of 269,346,174 rows of 4096 bytes (1/1024), as the memory here allows; "
            "batch 82,432 in place of 164,864");
  EXPECT_THAT(workload_environment(runs)["gnn-igb"]["scale"][0].get<std::string>(), HasSubstr("(1/1024)"));
}

TEST(Workload, FreeMemoryLimitsTheRows) {
  auto machine = machine_of(std::int64_t{16} << 30);
  machine.memory_available = std::int64_t{2} << 30;  // half of it, for two placements: 512 MiB each
  EXPECT_EQ(workload_runs(of("gnn-igb"), machine)[0].options.rows, Counts{269'346'174 / 4096});
}

TEST(Workload, BatchNeverExceedsTheRows) {
  auto options = of("ple-gemma4");
  options.rows = {50};
  const auto runs = workload_runs(options, machine_of(std::int64_t{16} << 30));
  EXPECT_EQ(runs[0].options.batches, (Counts{1, 50}));
  EXPECT_EQ(runs[0].scale, "--rows in place of 262,144 rows; no batch is above the table's 50 rows");
}

TEST(Workload, EachWidthIsASeparateRun) {
  const auto runs = workload_runs(of("kv-token"), machine_of(std::int64_t{16} << 30));
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_EQ(runs[1].options.row_bytes, Counts{656});
  EXPECT_THAT(runs[1].options.directions, ElementsAre("to", "from"));
}

TEST(Workload, GivenAxisWins) {
  auto options = of("recsys-dlrm");
  options.batches = {9'000'000}, options.dims = {3}, options.directions = {"round_trip"};
  const auto runs = workload_runs(options, machine_of(std::int64_t{16} << 30));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].options.batches, Counts{9'000'000});
  EXPECT_EQ(runs[0].options.dims, Counts{3});
  EXPECT_TRUE(runs[0].options.row_bytes.empty());
  EXPECT_THAT(runs[0].options.directions, ElementsAre("round_trip"));
  EXPECT_THAT(runs[0].options.distributions, ElementsAre("uniform", "zipf:1.05"));
}

TEST(Workload, DtypeKeepsTheRowBytesOrIsRefused) {
  auto options = of("tiny");
  options.dtypes = {"float32"};
  EXPECT_EQ(workload_runs(options, machine_of(1 << 30))[0].options.dims, Counts{3});
  options.dtypes = {"int64"};
  EXPECT_THAT([&] { workload_runs(options, machine_of(1 << 30)); },
              ThrowsMessage<UsageError>(HasSubstr("12 bytes")));
}

TEST(Workload, FileWithAMistakeIsNamed) {
  EXPECT_THAT([] { read_workload("x", "{"); }, ThrowsMessage<std::runtime_error>(HasSubstr("workload x: ")));
  EXPECT_THAT([] { read_workload("x", R"({"summary": "s", "rows": "many"})"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("type")));
  auto file = workloads().front().file;
  file["source"] = "";
  EXPECT_THAT([&] { read_workload("x", file.dump()); },
              ThrowsMessage<std::runtime_error>(HasSubstr("'source' is empty")));
}

}  // namespace
}  // namespace stbench
