// Invented machines of several nodes, and this machine.

#include "speedtorch/system/nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/harness/temporary_folder.h"

namespace speedtorch {
namespace {

/// A /sys of invented nodes in its own folder.
class MadeSystem {
 public:
  void write(const std::string& name, const std::string& text) const {
    folder_.write("sys/devices/system/node/" + name, text + "\n");
  }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  stbench::test::TemporaryFolder folder_;
};

TEST(Nodes, AreReadWithTheirCpus) {
  const MadeSystem system;
  system.write("has_memory", "0,2-3");
  system.write("node0/cpulist", "0-1,6");
  system.write("node1/cpulist", "7");  // a node without memory
  system.write("node2/cpulist", "2-3");
  system.write("node3/cpulist", "");  // memory without CPUs
  const Nodes nodes = read_nodes(system.root());
  EXPECT_EQ(nodes.numbers, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(nodes.node_of_cpu, (std::vector<int>{0, 0, 1, 1, -1, -1, 0}));
}

TEST(Nodes, AreOneIfTheSystemSaysNothing) {
  const MadeSystem system;
  EXPECT_EQ(read_nodes(system.root()).count(), 1);
  EXPECT_TRUE(read_nodes(system.root()).node_of_cpu.empty());
}

TEST(Nodes, TheMachinesNodesHoldEachTouchedPage) {
  const Nodes nodes = read_nodes();
  ASSERT_GE(nodes.count(), 1);
  std::vector<std::byte> touched(1 << 20, std::byte{1});
  std::vector<void*> pages;
  for (std::size_t at = 0; at < touched.size(); at += 10007) pages.push_back(touched.data() + at);
  std::vector<int> found(pages.size(), -1000);
  if (!ask_nodes(pages, found)) GTEST_SKIP() << "this system does not tell where pages lie";
  for (const int node : found) {
    EXPECT_NE(std::find(nodes.numbers.begin(), nodes.numbers.end(), node), nodes.numbers.end()) << node;
  }
}

/// Rows that are never read; only their addresses matter.
kernels::ConstRows table_of(std::int64_t rows, std::int64_t row_bytes, std::uintptr_t at = 0x100000) {
  return {reinterpret_cast<const std::byte*>(at), rows, row_bytes, row_bytes};
}

/// Answers by a rule per address.
template <class Rule>
auto by_rule(Rule rule) {
  return [rule](std::span<void* const> pages, std::span<int> numbers) {
    std::transform(pages.begin(), pages.end(), numbers.begin(),
                   [&](void* page) { return rule(reinterpret_cast<std::uintptr_t>(page)); });
    return true;
  };
}

const Nodes kTwo{{4, 9}, {0, 0, 1, 1}};  // numbers with gaps

TEST(FindOwners, FindsTwoRangesForATableInTwoHalves) {
  const auto table = table_of(100'000, 512);
  const auto border = reinterpret_cast<std::uintptr_t>(table.data) + 70'000 * 512;
  const auto owners =
      find_owners(table, kTwo, by_rule([&](std::uintptr_t at) { return at < border ? 9 : 4; }));
  ASSERT_TRUE(owners);
  for (std::int64_t row = 0; row < table.rows; row += 11) {
    if (std::abs(row - 70'000) <= 100'000 / 255) continue;  // between two samples
    EXPECT_EQ(owners->owner(row), row < 70'000 ? 1 : 0) << row;
  }
}

TEST(FindOwners, IsExactForInterleavedSmallAndHugePages) {
  for (const std::uintptr_t page : {std::uintptr_t{4096}, std::uintptr_t{2} << 20}) {
    const auto table = table_of(1'000'000, 160, 0x100000 + 100);
    const auto rule = [page](std::uintptr_t at) { return at / page % 2 == 0 ? 9 : 4; };
    const auto owners = find_owners(table, kTwo, by_rule(rule));
    ASSERT_TRUE(owners) << page;
    for (std::int64_t row = 0; row < table.rows; row += 7) {
      const auto at = reinterpret_cast<std::uintptr_t>(table.data) + static_cast<std::uintptr_t>(row) * 160;
      ASSERT_EQ(owners->owner(row), rule(at) == 4 ? 0 : 1) << row << " of pages of " << page;
    }
  }
}

TEST(FindOwners, FindsNothingIfItWouldNotHelp) {
  const auto table = table_of(1'000'000, 512);
  const auto four = by_rule([](std::uintptr_t) { return 4; });
  const auto both = by_rule([](std::uintptr_t at) { return at < 0x8000000 ? 4 : 9; });
  EXPECT_TRUE(find_owners(table, kTwo, both));
  EXPECT_FALSE(find_owners(table, kTwo, four)) << "all on one node";
  EXPECT_FALSE(find_owners(table, Nodes{{4}, {}}, both)) << "one node";
  EXPECT_FALSE(find_owners(table_of(1, 512), kTwo, both)) << "one row";
  EXPECT_FALSE(find_owners(table, kTwo, by_rule([](std::uintptr_t at) { return at < 0x8000000 ? 4 : -2; })))
      << "pages never touched";
  EXPECT_FALSE(find_owners(table, kTwo, by_rule([](std::uintptr_t at) { return at < 0x8000000 ? 4 : 5; })))
      << "a node without a number";
  const auto mixed =
      by_rule([](std::uintptr_t at) { return (at / 4096 * 0x9E3779B97F4A7C15u >> 63) == 0 ? 4 : 9; });
  EXPECT_FALSE(find_owners(table, kTwo, mixed)) << "no order";
  const auto silent = [](std::span<void* const>, std::span<int>) { return false; };
  EXPECT_FALSE(find_owners(table, kTwo, silent)) << "the system does not tell";
}

TEST(PlanByNode, NeedsThreadsAndRowsOnSeveralNodesAndEnoughBytes) {
  const auto table = table_of(1'000'000, 512);
  const auto both = by_rule([](std::uintptr_t at) { return at < 0x8000000 ? 4 : 9; });
  constexpr std::int64_t kMany = 64 << 20;
  const std::vector<int> spread = {0, 2, 1, 3}, together = {2, 3}, none;
  const auto plan = plan_by_node(table, kMany, kTwo, spread, both);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->node_of_thread, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(plan->owners.owner(0), 0);
  EXPECT_EQ(plan->owners.owner(999'999), 1);
  EXPECT_FALSE(plan_by_node(table, kMany, kTwo, together, both));
  EXPECT_FALSE(plan_by_node(table, kMany, kTwo, none, both));
  EXPECT_FALSE(plan_by_node(table, 1000, kTwo, spread, both));
  EXPECT_FALSE(plan_by_node(table, kMany, Nodes{{0}, {0, 0, 0, 0}}, spread, both));
}

}  // namespace
}  // namespace speedtorch
