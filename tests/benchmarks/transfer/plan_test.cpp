#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "benchmarks/suite/devices.h"
#include "benchmarks/suite/suite.h"
#include "benchmarks/transfer/axes.h"
#include "benchmarks/transfer/case_identity.h"
#include "benchmarks/transfer/fit.h"
#include "benchmarks/transfer/method.h"
#include "benchmarks/transfer/plan.h"
#include "harness/errors.h"
#include "speedtorch/cuda.h"

namespace stbench::plan_test {
namespace {

using speedtorch::Placement;
using testing::HasSubstr;
using testing::ThrowsMessage;

harness::Machine machine() {
  harness::Machine machine;
  machine.allowed_cpus = {0, 1, 2, 3};
  machine.allowed_cores = 4;
  machine.memory_available = std::int64_t{16} << 30;
  return machine;
}

constexpr std::int64_t disk_free = std::int64_t{64} << 30;

TransferPlan plan(const Options& options) {
  TransferIndices indices;
  return plan_transfer(options, machine(), disk_free, indices);
}

/// Host only: what these tests say holds with and without a GPU.
Options on_host() {
  Options options;
  options.devices = {"cpu"};
  return options;
}

std::set<std::string> values(const TransferPlan& plan, std::string reports::Identity::*axis) {
  std::set<std::string> seen;
  for (const auto& group : plan.groups) {
    for (const auto& one : group.cases) seen.insert(identity_of(one).*axis);
  }
  return seen;
}

TEST(Plan, StandardPresetPlansSpeedTorchsCaseInEveryHostPlacement) {
  const auto standard = plan(on_host());
  EXPECT_EQ(standard.groups.size(), 6U);  // to, from, round_trip on 1 core and on 4
  EXPECT_EQ(values(standard, &reports::Identity::placement),
            (std::set<std::string>{"libtorch", "pageable", "hugepage", "mapped"}));
  EXPECT_EQ(values(standard, &reports::Identity::method),
            (std::set<std::string>{"speedtorch", "file_rows", "index_select", "advanced", "copy", "stream"}));
  double seconds = 0;
  for (const auto& group : standard.groups) {
    seconds += group.seconds;
    for (const auto& one : group.cases) {
      const auto id = identity_of(one);
      EXPECT_EQ(id.rows, 1'000'000);
      EXPECT_EQ(id.dim, 128);
      EXPECT_EQ(id.batch, 131'072);
      EXPECT_EQ(id.dtype, "float32");
      EXPECT_EQ(id.index_dtype, "int64");
      EXPECT_EQ(id.distribution, "unique");
      EXPECT_TRUE(id.cores == 1 || id.cores == 4);
    }
  }
  EXPECT_LE(seconds, 270);  // "within five minutes", preparation included
}

TEST(Plan, MissingGpuWaivesEachPlacementOnce) {
  if (speedtorch::cuda_status().available) GTEST_SKIP() << "there is a GPU";
  const Options given;  // named: of a temporary g++ 12 takes a member's text for uninitialized
  const auto standard = plan(given);
  EXPECT_EQ(standard.waived.size(), 6U);
  for (const auto& record : standard.waived) {
    EXPECT_EQ(record.status, reports::Status::waived);
    EXPECT_THAT(record.reason, HasSubstr("missing"));
    EXPECT_EQ(record.id.device, "cuda:0");
  }
  EXPECT_TRUE(plan(on_host()).waived.empty());
}

TEST(Plan, SumPlansItsPartsOnly) {
  auto options = on_host();
  options.directions = {"sum"};
  EXPECT_EQ(values(plan(options), &reports::Identity::direction), (std::set<std::string>{"to", "from"}));
}

TEST(Plan, BidirectionalTransfersNeedPinnedMemoryAndAGpu) {
  auto options = on_host();
  options.directions = {"both"};
  EXPECT_THAT([&] { plan(options); },
              ThrowsMessage<UsageError>(HasSubstr("both is between pinned memory and a GPU")));
  options.directions = {"both", "to"};
  EXPECT_EQ(values(plan(options), &reports::Identity::direction), (std::set<std::string>{"to"}));
  if (speedtorch::cuda_status().available) GTEST_SKIP() << "there is a GPU";
  options.directions = {"both"}, options.devices.clear();
  const auto waived = plan(options).waived;
  ASSERT_EQ(waived.size(), 1U);
  EXPECT_EQ(waived[0].id.placement, "pinned");
  EXPECT_EQ(waived[0].id.direction, "both");
  EXPECT_THAT(waived[0].reason, HasSubstr("missing"));
}

TEST(Plan, BidirectionalTransfersNeedTwoDistinctRows) {
  TransferCase one;
  one.direction = Direction::both, one.rows = 100, one.batch = 2, one.distribution = "unique";
  EXPECT_EQ(direction_skip_reason(one), "");
  one.batch = 1;
  EXPECT_THAT(direction_skip_reason(one), HasSubstr("--batch 2"));
  one.batch = 100, one.distribution = "sequential";
  EXPECT_EQ(direction_skip_reason(one), "");
  one.batch = 101;
  EXPECT_THAT(direction_skip_reason(one), HasSubstr("--distribution unique"));
  one.batch = 2, one.distribution = "uniform";
  EXPECT_THAT(direction_skip_reason(one), HasSubstr("--distribution unique"));
  one.direction = Direction::from;
  EXPECT_EQ(direction_skip_reason(one), "");
}

TEST(Plan, RowsAreConsumedOnTheHostByOneCaller) {
  auto options = on_host();
  options.directions = {"consume"}, options.placements = {"pageable"};
  const auto planned = plan(options);
  EXPECT_EQ(values(planned, &reports::Identity::direction), (std::set<std::string>{"consume"}));
  EXPECT_EQ(values(planned, &reports::Identity::device), (std::set<std::string>{"cpu"}));
  TransferCase one;
  one.direction = Direction::consume, one.rows = 100, one.batch = 2, one.distribution = "uniform";
  EXPECT_TRUE(direction_supported(one));
  EXPECT_TRUE(one.reads());
  EXPECT_FALSE(one.writes());
  EXPECT_EQ(direction_skip_reason(one), "");
  one.callers = 2;
  EXPECT_THAT(direction_skip_reason(one), HasSubstr("--callers 1"));
  one.device = c10::Device("cuda:0");
  EXPECT_FALSE(direction_supported(one));
}

TEST(Plan, AxesMultiply) {
  auto options = on_host();
  options.directions = {"to"}, options.placements = {"libtorch"}, options.methods = {"speedtorch"},
  options.cores = {1, 2};
  options.rows = {1000, 2000, 4000}, options.batches = {10, 20}, options.dtypes = {"float16", "int64"};
  const auto crossed = plan(options);
  EXPECT_EQ(crossed.groups.size(), 3U * 2 * 2 * 2);
  for (const auto& group : crossed.groups) EXPECT_EQ(group.cases.size(), 1U);
}

TEST(Plan, FullPresetTakesEveryValueOfTheClosedAxes) {
  auto options = on_host();
  options.preset = "full";
  const auto full = plan(options);
  EXPECT_EQ(values(full, &reports::Identity::dtype).size(), transfer_axes::dtypes().size());
  EXPECT_EQ(values(full, &reports::Identity::index_dtype).size(), 2U);
  EXPECT_EQ(values(full, &reports::Identity::distribution).size(), 5U);
}

Options kernels() {
  auto options = on_host();
  options.preset = "kernels";
  return options;
}

using reports::Identity;

std::set<std::int64_t> numbers(const TransferPlan& plan, std::int64_t Identity::*axis, auto chosen) {
  std::set<std::int64_t> seen;
  for (const auto& group : plan.groups) {
    for (const auto& one : group.cases) {
      if (chosen(identity_of(one))) seen.insert(identity_of(one).*axis);
    }
  }
  return seen;
}

TEST(Plan, KernelsPresetHasEveryCellOfItsGoals) {
  const auto planned = plan(kernels());
  const std::set<std::int64_t> widths{16, 32, 64, 128, 160, 256, 264, 512, 516, 656, 1024, 1152, 4096};
  for (const char* direction : {"to", "from"}) {
    for (const char* placement : {"pageable", "hugepage"}) {
      for (const char* index : {"int64", "int32"}) {
        for (const char* method : {"speedtorch", "index_select", "copy", "stream"}) {
          const bool refused = index == std::string("int32") && method == std::string("index_select") &&
                               direction == std::string("from");
          const auto of = [&](const Identity& id) {
            return id.direction == direction && id.placement == placement && id.index_dtype == index &&
                   id.method == method && id.cores == 4 && id.batch == 131'072;
          };
          EXPECT_EQ(numbers(planned, &Identity::dim, of), refused ? std::set<std::int64_t>{} : widths)
              << method;
        }
      }
    }
  }
  const auto one_core = [](const Identity& id) {
    return id.cores == 1 && id.batch == 131'072 && id.direction == "to";
  };
  EXPECT_EQ(numbers(planned, &Identity::dim, one_core), widths);
  const auto small = [](const Identity& id) { return id.method == "advanced" && id.dim == 160; };
  EXPECT_EQ(numbers(planned, &Identity::batch, small), (std::set<std::int64_t>{1, 8, 24, 64, 384, 1536}));
  const auto at_512 = [](const Identity& id) { return id.dim == 512 && id.method == "stream"; };
  EXPECT_EQ(numbers(planned, &Identity::cores, at_512), (std::set<std::int64_t>{1, 2, 4}));
}

TEST(Plan, KernelsPresetPlansEachCaseOnceByPlacement) {
  const auto planned = plan(kernels());
  std::set<std::string> case_ids;
  Placements placements;
  double seconds = 0;
  for (const auto& group : planned.groups) {
    seconds += group.seconds;
    for (const auto& one : group.cases) {
      const auto id = case_id_of(identity_of(one));
      EXPECT_TRUE(case_ids.insert(id).second) << id;
      EXPECT_EQ(one.placement, group.cases.front().placement);
    }
    if (placements.empty() || placements.back() != group.cases.front().placement)
      placements.push_back(group.cases.front().placement);
  }
  EXPECT_EQ(placements, (Placements{Placement::pageable, Placement::hugepage}));
  EXPECT_LT(seconds, 300);
}

TEST(Plan, KernelsPresetTablesHaveFiveGigabytesOrWhatFits) {
  const auto bytes = [](const TransferPlan& planned) {
    std::set<std::int64_t> seen;
    for (const auto& group : planned.groups) seen.insert(group.cases.front().rows * group.cases.front().dim);
    return seen;
  };
  const auto usual = plan(kernels());
  EXPECT_TRUE(usual.warnings.empty());
  EXPECT_GT(*bytes(usual).begin(), 4'999'990'000);
  EXPECT_LE(*bytes(usual).rbegin(), 5'000'000'000);
  auto small = machine();
  small.memory_available = std::int64_t{4} << 30;
  TransferIndices indices;
  const auto scaled = plan_transfer(kernels(), small, disk_free, indices);
  ASSERT_EQ(scaled.warnings.size(), 1U);
  EXPECT_THAT(scaled.warnings[0], HasSubstr("instead of"));
  EXPECT_LT(*bytes(scaled).rbegin(), small.memory_available);
}

TEST(Plan, GivenAxesReplaceThoseOfEachBlock) {
  auto options = kernels();
  options.rows = {5000}, options.batches = {100}, options.row_bytes = {24}, options.cores = {2};
  const auto planned = plan(options);
  for (const auto& group : planned.groups) {
    for (const auto& id : group.cases) {
      EXPECT_EQ(id.rows, 5000);
      EXPECT_EQ(id.batch, 100);
      EXPECT_EQ(id.dim, 24);
      EXPECT_EQ(id.cores, 2);
    }
  }
  EXPECT_EQ(planned.groups.size(), 2U * (2 * 2 + 1));  // placements; both ways by index dtypes, and consume
}

/// The groups that have a case of this method.
std::vector<const TransferPlan::Cases*> groups_with(const TransferPlan& planned, const std::string& method) {
  std::vector<const TransferPlan::Cases*> found;
  for (const auto& group : planned.groups) {
    const auto is_its = [&](const TransferCase& one) { return one.method->name == method; };
    if (std::ranges::any_of(group.cases, is_its)) found.push_back(&group);
  }
  return found;
}

TEST(Plan, KernelsPresetHasPeersOnOneCoreOnly) {
  auto options = kernels();
  EXPECT_TRUE(groups_with(plan(options), "gather").empty()) << "nobody asked for it";
  options.peers = {"gather"};
  const auto planned = plan(options);
  EXPECT_EQ(groups_with(planned, "gather").size(), 13U * 2) << "widths, placements";
  for (const auto* group : groups_with(planned, "gather")) {
    for (const auto& one : group->cases) {
      EXPECT_EQ(one.cores, 1);
      EXPECT_EQ(one.direction, Direction::to);
      EXPECT_EQ(one.index_dtype, at::kLong);
      EXPECT_EQ(one.batch, 131'072);
    }
  }
  EXPECT_EQ(values(planned, &Identity::method),
            (std::set<std::string>{"speedtorch", "index_select", "advanced", "copy", "stream", "gather"}));
  options.methods = {"speedtorch"};
  EXPECT_EQ(groups_with(plan(options), "gather").size(), 13U * 2) << "beside the methods that were given";
}

TEST(Plan, LaterBlocksAddMethodsToTheGroupOfACell) {
  auto options = kernels();
  options.cores = {2}, options.peers = {"gather"};  // so all blocks have the same cells
  const auto planned = plan(options);
  std::set<TransferCase> cells;
  for (const auto& group : planned.groups) {
    const auto& first = group.cases.front();
    for (const auto& one : group.cases) EXPECT_EQ(one.cell(), first.cell());
    EXPECT_TRUE(cells.insert(first.cell()).second) << case_id_of(identity_of(first));
  }
  const auto with = groups_with(planned, "gather");
  ASSERT_EQ(with.size(), 13U * 2);
  for (const auto* group : with) EXPECT_GE(group->cases.size(), 5U);
}

TEST(Plan, PeerWithoutACellIsWaivedOnce) {
  auto options = kernels();
  options.peers = {"embedding_bag"};  // of floating dtypes, and rows of bytes are none
  const auto planned = plan(options);
  EXPECT_TRUE(groups_with(planned, "embedding_bag").empty());
  const auto its = [](const reports::Record& record) { return record.id.method == "embedding_bag"; };
  ASSERT_EQ(std::ranges::count_if(planned.waived, its), 1);
  EXPECT_THAT(std::ranges::find_if(planned.waived, its)->reason, HasSubstr("none is among the cells"));
}

TEST(Plan, CallersAxisUsesASmallerBatch) {
  auto options = on_host();
  options.directions = {"to"}, options.placements = {"libtorch"}, options.cores = {2};
  options.callers = {1, 8};
  const auto planned = plan(options);
  ASSERT_EQ(planned.groups.size(), 2U);
  EXPECT_EQ(planned.groups[0].cases.front().callers, 1);
  EXPECT_EQ(planned.groups[1].cases.front().callers, 8);
  for (const auto& group : planned.groups) EXPECT_EQ(group.cases.front().batch * 8, 131'072);
  options.batches = {100};
  EXPECT_EQ(plan(options).groups[1].cases.front().batch, 100);
  EXPECT_EQ(plan(options).groups[1].cases.front().rows_moved(), 800);
}

TEST(Plan, ConcurrentScattersNeedDistinctRows) {
  const auto of = [](const char* direction, const char* distribution, std::int64_t callers) {
    return direction_skip_reason({.direction = direction_of(direction),
                                  .distribution = distribution,
                                  .rows = 1000,
                                  .batch = 100,
                                  .callers = callers});
  };
  for (const char* distribution : {"unique", "uniform", "zipf:1.1", "sequential"}) {
    EXPECT_EQ(of("to", distribution, 8), "") << "reading one row is no trouble";
    EXPECT_EQ(of("from", distribution, 1), "");
  }
  for (const char* direction : {"from", "round_trip"}) {
    EXPECT_EQ(of(direction, "unique", 8), "");
    EXPECT_EQ(of(direction, "sequential", 10), "");
    for (const char* distribution : {"uniform", "sorted", "zipf:1.1", "file:a@12345678"})
      EXPECT_THAT(of(direction, distribution, 2), HasSubstr("must not write one row at once"))
          << distribution;
    EXPECT_THAT(of(direction, "sequential", 11), HasSubstr("must not write one row at once"))
        << "it wraps round";
  }
  EXPECT_THAT(of("both", "unique", 2), HasSubstr("--callers 1"));
}

TEST(Plan, SmallPresetPlansRoundTripsOfWholeSmallTables) {
  auto options = on_host();
  options.preset = "small";
  const auto planned = plan(options);
  ASSERT_EQ(planned.groups.size(), 3U);
  EXPECT_EQ(values(planned, &Identity::direction), std::set<std::string>{"round_trip"});
  EXPECT_EQ(values(planned, &Identity::placement), (std::set<std::string>{"libtorch", "pageable"}));
  EXPECT_EQ(values(planned, &Identity::method),
            (std::set<std::string>{"speedtorch", "index_select", "advanced", "copy"}));
  for (const auto& group : planned.groups) {
    for (const auto& id : group.cases) {
      EXPECT_EQ(id.dim, 3);
      EXPECT_EQ(id.batch, id.rows);
      EXPECT_TRUE(id.rows == 6 || id.rows == 12 || id.rows == 20);
    }
  }
  if (speedtorch::cuda_status().available) GTEST_SKIP() << "there is a GPU";
  options.devices.clear();
  const auto waived = plan(options).waived;
  EXPECT_EQ(waived.size(), 4U) << "a line a placement";
}

TEST(Plan, InstructionSetIsAnAxis) {
  auto options = on_host();
  options.isas = {"best", "baseline"};
  options.directions = {"to"}, options.placements = {"libtorch"}, options.cores = {1};
  const auto planned = plan(options);
  ASSERT_EQ(planned.groups.size(), 2U);
  EXPECT_EQ(planned.groups[0].cases.front().isa, "best");
  EXPECT_EQ(planned.groups[1].cases.front().isa, "baseline");
  EXPECT_EQ(transfer_axes::isas().front(), "best");
  EXPECT_EQ(transfer_axes::isas().back(), "baseline");
}

TEST(Plan, UnsupportedIndexDtypeIsWaivedWithTheCure) {
  auto options = on_host();
  options.index_dtypes = {"int32"}, options.directions = {"from"}, options.placements = {"libtorch"},
  options.cores = {1};
  const auto refused = plan(options);
  ASSERT_EQ(refused.waived.size(), 1U);
  EXPECT_EQ(refused.waived[0].id.method, "index_select");
  EXPECT_THAT(refused.waived[0].reason, HasSubstr("--index-dtype int64"));
  EXPECT_EQ(values(refused, &reports::Identity::method).count("index_select"), 0U);
}

TEST(Plan, TablesThatDoNotFitTogetherHaveSeparateGroups) {
  auto options = on_host();
  options.directions = {"to"}, options.cores = {1};
  EXPECT_EQ(plan(options).groups.size(), 1U);
  options.rows = {10'000'000};
  EXPECT_EQ(plan(options).groups.size(), 4U);
}

TEST(Plan, ImpossibleOptionsThrowBeforeAnythingIsAllocated) {
  const auto refused = [](auto change, const char* text) {
    auto options = on_host();
    change(options);
    EXPECT_THAT([&] { plan(options); }, ThrowsMessage<UsageError>(HasSubstr(text)));
  };
  refused([](Options& o) { o.batches = {1'000'001}; }, "batch");
  refused([](Options& o) { o.rows = {std::int64_t{1} << 60}; }, "overflows");
  refused([](Options& o) { o.rows = {100'000'000}; }, "bytes), 17.2 GB are available");
  refused([](Options& o) { o.rows = {150'000'000}; }, "in a file needs 76.8 GB; 68.7 GB are free");
  refused([](Options& o) { o.cores = {5}; }, "use 1 to 4");
  refused([](Options& o) { o.cores = {0}; }, "use 1 to 4");
  refused([](Options& o) { o.rows = {0}; }, "at least 1");
  refused([](Options& o) { o.callers = {0}; }, "--callers 0: use 1 to 1024");
  refused([](Options& o) { o.callers = {8}, o.batches = {131'072}; }, "--callers 8 of 131072 rows each");
  refused([](Options& o) { o.callers = {1024}, o.batches = {std::int64_t{1} << 60}; }, "--callers 1024");
  refused([](Options& o) { o.row_bytes = {64}, o.dims = {16}; }, "--row-bytes");
  refused([](Options& o) { o.placements = {"pinned"}; }, "CUDA device only");
  refused([](Options& o) { o.devices = {"tpu"}; }, "unknown");
  refused([](Options& o) { o.distributions = {"file:/no/such/trace"}; }, "/no/such/trace");
  refused([](Options& o) { o.methods = {"staged"}; }, "nothing to measure");
  refused([](Options& o) { o.directions = {"step"}, o.devices.clear(); }, "no --direction step");
}

TEST(Plan, CaseOptionAddsLibTorchsMethodsAndCeilings) {
  Options options;
  options.case_id = "transfer to hugepage -> speedtorch -> cpu float32 2k×16 batch 100 uniform int32 cores=2";
  const auto one = plan(options_for_case(options));
  ASSERT_EQ(one.groups.size(), 1U);
  EXPECT_EQ(values(one, &reports::Identity::method),
            (std::set<std::string>{"speedtorch", "index_select", "advanced", "copy", "stream"}));
  for (const auto& found : one.groups[0].cases) {
    EXPECT_EQ(found.placement, Placement::hugepage);
    EXPECT_EQ(found.rows, 2000);
    EXPECT_EQ(found.index_dtype, at::kInt);
    EXPECT_EQ(found.cores, 2);
  }
}

TransferCase case_of(const std::string& placement, const std::string& device,
                     Direction direction = Direction::to) {
  return {.direction = direction, .placement = placement_of(placement), .device = at::Device(device)};
}

TEST(Methods, GpuMethodsNeedGpuPlacement) {
  for (const char* name : {"cub_batched", "memcpy_batch"}) {
    for (const auto& placement : transfer_axes::placements()) {
      EXPECT_FALSE(method_named(name).supports(case_of(placement, "cpu"))) << name << " " << placement;
      EXPECT_EQ(method_named(name).supports(case_of(placement, "cuda:0")),
                placement == "pinned" || placement == "device")
          << name << " " << placement;
    }
    EXPECT_EQ(method_named(name).role, harness::Role::peer);
  }
}

TEST(Methods, HybridGathersFromPinnedMemoryAndGivesTheReasonForNoScatter) {
  const auto& hybrid = method_named("hybrid");
  for (const auto& placement : transfer_axes::placements())
    EXPECT_EQ(hybrid.supports(case_of(placement, "cuda:0")), placement == "pinned") << placement;
  EXPECT_FALSE(hybrid.supports(case_of("pinned", "cpu")));
  EXPECT_EQ(hybrid.skip_reason(case_of("pinned", "cuda:0")), "");
  for (const auto direction : {Direction::from, Direction::round_trip})
    EXPECT_THAT(hybrid.skip_reason(case_of("pinned", "cuda:0", direction)), HasSubstr("--direction to"));
}

TEST(Methods, BudgetMethodsNeedAGpuAndMustBeAskedFor) {
  std::vector<std::string> names;
  for (const auto& one : methods()) {
    if (!one.name.starts_with("speedtorch_")) continue;
    names.push_back(one.name);
    EXPECT_TRUE(one.asked_only);
    EXPECT_EQ(one.role, harness::Role::ours);
    for (const auto& placement : transfer_axes::placements()) {
      EXPECT_FALSE(one.supports(case_of(placement, "cpu")));
      EXPECT_EQ(one.supports(case_of(placement, "cuda:0")), placement == "pinned" || placement == "device");
    }
  }
  ASSERT_GE(names.size(), 3U);
  EXPECT_EQ(names.front(), "speedtorch_1sm");
  EXPECT_EQ(names[1], "speedtorch_2sm") << "in the order of the numbers";
  const auto peers = method_names(/*only_peers=*/true);
  EXPECT_EQ(std::ranges::count(peers, names.front()), 0);
}

TEST(Methods, KernelsPresetHasBudgetsAndBidirectionalTransfersOnAGpuOnly) {
  Options options;
  options.preset = "kernels";
  std::size_t with_budgets = 0, both = 0;
  for (const auto& block : preset_of(options).blocks) {
    if (!contains(block.methods, "speedtorch_8sm")) continue;
    ++with_budgets;
    if (block.directions == std::vector<std::string>{"both"}) ++both;
    EXPECT_EQ(block.devices, Block::Devices::gpu);
    EXPECT_EQ(block.placements, std::vector<std::string>{"pinned"});
    EXPECT_EQ(block.row_bytes, std::vector<std::int64_t>{512});
    for (const auto& name : block.methods) EXPECT_EQ(method_named(name).name, name);
    for (const auto& one : methods()) {
      const bool budget = one.name.starts_with("speedtorch_");
      EXPECT_TRUE(!budget || contains(block.methods, one.name)) << one.name;
    }
  }
  EXPECT_EQ(with_budgets, 2U);
  EXPECT_EQ(both, 1U);
}

TEST(Methods, MethodsAreSortedOursFirstCeilingsLast) {
  ASSERT_FALSE(methods().empty());
  EXPECT_EQ(methods().front().name, "speedtorch");
  EXPECT_EQ(methods().back().role, harness::Role::ceiling);
  std::set<std::string> names;
  for (const auto& method : methods())
    EXPECT_TRUE(names.insert(method.name).second) << method.name << " is registered twice";
}

}  // namespace
}  // namespace stbench::plan_test
