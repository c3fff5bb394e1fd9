#include "speedtorch/tables/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace speedtorch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(MemoryPlan, GivesEachTableTheFirstPlacementThatHasRoom) {
  const std::vector<PlannedTable> tables{{.name = "words", .rows = 100, .dim = 10, .states = 2},
                                         {.name = "papers", .rows = 200, .dim = 10, .states = 1}};
  // 4,000 and 8,000 bytes per table. The parameters come first: 12,000 of 13,000. Then 8,000 of states, none
  // of which fit on the device, and 20,000 of pinned memory.
  const auto plan = plan_memory(tables, {.device = 13'000, .pinned = 20'000, .host = 30'000, .file = 0});
  EXPECT_EQ(plan.text(),
            "words: 4000 bytes, device\n"
            "papers: 8000 bytes, device\n"
            "words state 1: 4000 bytes, pinned\n"
            "words state 2: 4000 bytes, pinned\n"
            "papers state 1: 8000 bytes, pinned\n"
            "in all: device 12000, host 16000 (pinned 16000), file 0 bytes\n");
  EXPECT_EQ(plan.used.device, 12'000);
  EXPECT_EQ(plan.left.device, 1'000);
  EXPECT_EQ(plan.left.pinned, 4'000);
  EXPECT_EQ(plan.left.host, 14'000);
  EXPECT_EQ(plan.placement_of("papers"), Placement::device);
  EXPECT_THAT([&] { (void)plan.placement_of("books"); },
              ThrowsMessage<NameError>(HasSubstr("no table 'books'")));
}

TEST(MemoryPlan, NamesAreUnique) {
  const auto plan = [](const std::vector<PlannedTable>& tables) {
    return plan_memory(tables, {.device = 400, .pinned = kGiB, .host = kGiB});
  };
  EXPECT_THAT(
      ([&] {
        (void)plan({{.name = "words", .rows = 100, .dim = 1}, {.name = "words", .rows = 9, .dim = 1}});
      }),
      ThrowsMessage<NameError>(HasSubstr("'words', one of 400 bytes and one of 36")));
  // A table named like another's state.
  EXPECT_THAT(([&] {
                (void)plan({{.name = "words", .rows = 100, .dim = 1, .states = 2},
                            {.name = "words state 2", .rows = 9, .dim = 1}});
              }),
              ThrowsMessage<NameError>(HasSubstr("'words state 2', one of 36 bytes and one of 400")));
  EXPECT_EQ(plan({{.name = "words", .rows = 100, .dim = 1}, {.name = "Words", .rows = 9, .dim = 1}})
                .placement_of("Words"),
            Placement::pinned);
  // A plan that was not made by plan_memory().
  const MemoryPlan by_hand{{{"words", Placement::device, 400}, {"words", Placement::pinned, 36}}, {}, {}};
  EXPECT_THAT([&] { (void)by_hand.placement_of("words"); },
              ThrowsMessage<NameError>(HasSubstr("more than one table of the plan is called 'words'")));
}

TEST(MemoryPlan, FitsToTheByte) {
  const std::vector<PlannedTable> one{{.name = "t",
                                       .rows = 10,
                                       .dim = 10,
                                       .dtype = at::kDouble,
                                       .wanted = {Placement::hugepage, Placement::mapped}}};
  EXPECT_EQ(plan_memory(one, {.host = 800}).placement_of("t"), Placement::hugepage);
  EXPECT_EQ(plan_memory(one, {.host = 799, .file = 800}).placement_of("t"), Placement::mapped);
  EXPECT_THROW((void)plan_memory(one, {.host = 799, .file = 799}), PlanError);
  const std::vector<PlannedTable> pinned{{.name = "t", .rows = 100, .dim = 1, .wanted = {Placement::pinned}}};
  EXPECT_THROW((void)plan_memory(pinned, {.pinned = 400, .host = 399}), PlanError);  // it is host memory too
  EXPECT_EQ(plan_memory(pinned, {.pinned = 400, .host = 400}).left.host, 0);
}

TEST(MemoryPlan, NamesWhatDoesNotFit) {
  const std::vector<PlannedTable> tables{{.name = "small", .rows = 1, .dim = 1, .states = 1},
                                         {.name = "huge", .rows = 1000, .dim = 1000}};
  const MemoryBudgets budgets{.device = 100, .pinned = 50, .host = 60, .file = 1 << 30};
  try {
    (void)plan_memory(tables, budgets);
    FAIL() << "nothing was thrown";
  } catch (const PlanError& error) {
    ASSERT_EQ(error.left().size(), 1U);
    EXPECT_EQ(error.left()[0].name, "huge");
    EXPECT_EQ(error.left()[0].bytes, 4'000'000);
    EXPECT_STREQ(
        error.what(),
        "the plan does not fit:\n'huge' needs 4000000 bytes; device has 96 left, pinned has 50 left");
  }
}

TEST(MemoryPlan, RefusesImpossibleTables) {
  const auto plan = [](PlannedTable table) { (void)plan_memory({table}, {.host = kGiB}); };
  EXPECT_THROW(plan({.name = "t", .rows = -1, .dim = 1}), ShapeError);
  EXPECT_THROW(plan({.name = "t", .rows = 1, .dim = 1, .states = -1}), ShapeError);
  EXPECT_THAT([&] { plan({.name = "t", .rows = std::int64_t{1} << 61, .dim = 2}); },
              ThrowsMessage<ShapeError>(HasSubstr("'t' of 2305843009213693952 rows of 2")));
  EXPECT_THROW(plan({.name = "t", .rows = std::int64_t{1} << 31, .dim = std::int64_t{1} << 31}), ShapeError);
  EXPECT_THROW(plan({.name = "t", .rows = 1, .dim = 1, .wanted = {}}), ShapeError);
}

/// SpeedTorch's published example: 2,829,853 books with Adam on a GPU of 12 GB, at 496 numbers per book,
/// where the GPU alone allowed 255 to 260.
TEST(MemoryPlan, FitsSpeedTorchsBooks) {
  const auto books = [](std::int64_t dim, std::vector<Placement> wanted) {
    return PlannedTable{
        .name = "books", .rows = 2'829'853, .dim = dim, .states = 2, .wanted = std::move(wanted)};
  };
  const MemoryBudgets machine{.device = 11 * kGiB, .pinned = 12 * kGiB, .host = 12 * kGiB};
  // 2,829,853 x 496 x 4 bytes = 5.23 GiB for each of three tables.
  const auto plan = plan_memory({books(496, {Placement::device, Placement::pinned})}, machine);
  EXPECT_EQ(plan.tables[0].bytes, 5'614'428'352);
  EXPECT_EQ(plan.used.device, 2 * 5'614'428'352);  // the parameter and one state
  EXPECT_EQ(plan.used.pinned, 5'614'428'352);
  EXPECT_THAT([&] { (void)plan_memory({books(496, {Placement::device})}, machine); },
              ThrowsMessage<PlanError>(AllOf(HasSubstr("'books state 2' needs 5614428352 bytes"),
                                             testing::Not(HasSubstr("state 1")))));
  // Trained whole on the GPU, it also needs a dense gradient as large as the table.
  auto dense = books(256, {Placement::device});
  dense.states = 3;
  EXPECT_EQ(plan_memory({dense}, machine).used.device, 4 * 2'897'769'472);
  dense.dim = 261;
  EXPECT_THROW((void)plan_memory({dense}, machine), PlanError);
}

/// 14,886,544 papers at 188 numbers with SGD: one table on the GPU, one in pinned memory. The GPU alone
/// allows 94.
TEST(MemoryPlan, FitsSpeedTorchsPapers) {
  const auto papers = [](const char* name, std::int64_t dim, std::vector<Placement> wanted) {
    return PlannedTable{.name = name, .rows = 14'886'544, .dim = dim, .wanted = std::move(wanted)};
  };
  const MemoryBudgets machine{.device = 11 * kGiB, .pinned = 12 * kGiB, .host = 12 * kGiB};
  const std::vector<Placement> either{Placement::device, Placement::pinned};
  const auto plan = plan_memory({papers("context", 188, either), papers("target", 188, either)}, machine);
  EXPECT_EQ(plan.tables[0].bytes, 11'194'681'088);
  EXPECT_EQ(plan.placement_of("context"), Placement::device);
  EXPECT_EQ(plan.placement_of("target"), Placement::pinned);
  const std::vector<Placement> device{Placement::device};
  EXPECT_THROW((void)plan_memory({papers("context", 188, device), papers("target", 188, device)}, machine),
               PlanError);
  (void)plan_memory({papers("context", 94, device), papers("target", 94, device)}, machine);
}

TEST(MemoryPlan, ThisMachinesBudgetsAreWhatItHas) {
  const auto budgets = free_budgets(at::Device(at::kCPU), testing::TempDir());
  EXPECT_GT(budgets.host, 0);
  EXPECT_GT(budgets.file, 0);
  EXPECT_EQ(budgets.device, 0);
  EXPECT_EQ(budgets.pinned, 0);
}

}  // namespace
}  // namespace speedtorch
