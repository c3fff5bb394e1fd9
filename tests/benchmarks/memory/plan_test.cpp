#include "benchmarks/memory/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "benchmarks/memory/allocator.h"
#include "benchmarks/suite/suite.h"
#include "harness/errors.h"

namespace stbench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

harness::Machine machine(std::int64_t available = std::int64_t{16} << 30) {
  harness::Machine machine;
  machine.allowed_cpus = {0, 1};
  machine.allowed_cores = 2;
  machine.memory_available = available;
  return machine;
}

/// Host only: what these tests say holds with and without a GPU.
Options on_host() {
  Options options;
  options.suites = {"memory"};
  options.devices = {"cpu"};
  return options;
}

std::vector<std::string> case_ids(const MemoryPlan& plan) {
  std::vector<std::string> all;
  for (const auto& id : plan.cases) all.push_back(case_id_of(id));
  return all;
}

TEST(MemoryPlanTest, StandardPlanHoldsSpeedTorchsTableInEveryHostPlacement) {
  const auto plan = plan_memory(on_host(), machine());
  EXPECT_THAT(case_ids(plan),
              ElementsAre("memory in libtorch -> libtorch -> cpu float32 10M×128",
                          "memory in pageable -> speedtorch -> cpu float32 10M×128",
                          "memory in hugepage -> speedtorch -> cpu float32 10M×128",
                          "memory in mapped -> speedtorch -> cpu float32 10M×128",
                          "memory in mapped -> speedtorch -> cpu float32 10M×128 touched=0.25"));
  EXPECT_THAT(plan.warnings, testing::IsEmpty());
  EXPECT_THAT(plan.waived, testing::IsEmpty());
}

TEST(MemoryPlanTest, PlanHalvesTheRowsUntilTheyFitAndWarns) {
  const auto plan = plan_memory(on_host(), machine(2'000'000'000));
  for (const auto& id : plan.cases) EXPECT_EQ(id.rows, 2'500'000);  // 1.28 GB; 2.56 GB would be too much
  EXPECT_THAT(plan.warnings, ElementsAre(AllOf(HasSubstr("2,500,000 rows"), HasSubstr("10,000,000"))));
  auto quick = on_host();
  quick.preset = "quick";
  EXPECT_EQ(plan_memory(quick, machine(2'000'000'000)).cases.front().rows, 1'000'000);
}

TEST(MemoryPlanTest, PlanRefusesTooManyRowsAndNamesWhatFits) {
  auto options = on_host();
  options.rows = {10'000'000};
  EXPECT_THAT([&] { plan_memory(options, machine(512'000'000)); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("5.12 GB"), HasSubstr("(5120000000 bytes)"),
                                              HasSubstr("512 MB are available"),
                                              HasSubstr("--rows 1000000 would fit"))));
  options.rows = {1}, options.dims = {1'000'000'000};
  EXPECT_THAT([&] { plan_memory(options, machine(512'000'000)); },
              ThrowsMessage<UsageError>(HasSubstr("not even one row fits")));
}

TEST(MemoryPlanTest, LibTorchsPinnedAllocatorRoundsUp) {
  const auto& allocator = allocator_named("libtorch");
  EXPECT_EQ(allocator.needs("pinned", 5'120'000'000), std::int64_t{8} << 30);
  EXPECT_EQ(allocator.needs("pinned", std::int64_t{4} << 30), std::int64_t{4} << 30);
  EXPECT_EQ(allocator.needs("libtorch", 5'120'000'000), 5'120'000'000);
  EXPECT_EQ(allocator_named("speedtorch").needs("pinned", 5'120'000'000), 5'120'000'000);
}

TEST(MemoryPlanTest, CaseOptionPlansThatCaseOnly) {
  Options options;
  options.suites = {"memory"};
  options.case_id = "memory in mapped -> speedtorch -> cpu int8 1k×7 touched=0.5";
  EXPECT_THAT(case_ids(plan_memory(options, machine())), ElementsAre(options.case_id));
}

TEST(MemoryPlanTest, AllocatorsAreInTheirPlacementsOnly) {
  for (const auto& allocator : allocators()) {
    auto options = on_host();
    options.methods = {allocator.name};
    const bool host = std::ranges::any_of(allocator.placements, [](const std::string& placement) {
      return placement != "pinned" && placement != "device";
    });
    if (!host) {
      EXPECT_THROW(plan_memory(options, machine()), UsageError) << allocator.name;
      continue;
    }
    for (const auto& id : plan_memory(options, machine()).cases) {
      EXPECT_EQ(id.method, allocator.name);
      EXPECT_THAT(allocator.placements, testing::Contains(id.placement));
    }
  }
}

}  // namespace
}  // namespace stbench
