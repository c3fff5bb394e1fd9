/// Ranks are killed at random instants, most of them in the middle of an exchange. The others get a
/// GroupError, whatever they are doing, nothing hangs, and the memory of their shards is free.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/time.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "speedtorch/error.h"
#include "speedtorch/sharded/sharded_table.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/sharded/ranks.h"
#include "tests/speedtorch/shared/sockets.h"

namespace speedtorch {
namespace {

using test::HeldPort;
using test::in_ranks;
using test::on_this_host;

constexpr std::int64_t kRows = 20000, kWidth = 64;
/// Gloo does not tell a rank whose message to a killed one was half sent. So it waits this long.
constexpr auto kTimeout = std::chrono::seconds(6);

/// Kills this process after some time, whatever its threads are doing then.
void die_after(std::chrono::microseconds time) {
  ::signal(SIGALRM, [](int) { ::kill(::getpid(), SIGKILL); });
  const itimerval once{{}, {time.count() / 1000000, time.count() % 1000000}};
  ::setitimer(ITIMER_REAL, &once, nullptr);
}

/// Gathers, scatters and steps for ever, without changing the table.
std::string use_for_ever(ShardedTable& table, const at::Tensor& whole, int rank) {
  SparseRows optimizer(table.shard().host_tensor(), SGDOptions{.lr = 0});
  const auto index = at::randint(0, kRows, {rank == 3 ? 0 : 3000 + rank}, at::kLong);
  const auto expected = whole.index_select(0, index);
  for (;;) {
    if (!at::equal(table.gather(index), expected)) return "wrong rows";
    table.scatter(index, expected, Duplicates::last);
    table.step(optimizer, index, at::ones_like(expected));
  }
}

/// Writes down the shared memory that this process maps.
void note_memory(const std::filesystem::path& file) {
  std::ofstream out(file);
  for (const auto& [device, inode] : test::unnamed_memory_of(::getpid()))
    out << device << ' ' << inode << '\n';
}

/// The memory that ranks wrote down in the folder.
std::set<test::Inode> noted_memory(const std::filesystem::path& folder) {
  std::set<test::Inode> noted;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path());
    test::Inode memory;
    while (in >> memory.first >> memory.second) noted.insert(memory);
  }
  return noted;
}

std::string until_lost(const HeldPort& port, int rank, int ranks, int killed, bool node_first,
                       std::chrono::microseconds time, const std::filesystem::path& memory) {
  const auto whole = at::arange(kRows * kWidth, at::kFloat).view({kRows, kWidth});
  const RankGroup group(rank, ranks, on_this_host(port, kTimeout));
  auto table = ShardedTable::from_array(
      group, whole, {.sharding = Sharding::hashed, .chunk_bytes = 1 << 15, .node_first = node_first});
  note_memory(memory / std::to_string(rank));
  group.barrier();
  if (rank == killed) die_after(time);
  try {
    return use_for_ever(table, whole, rank);
  } catch (const GroupError& error) {
    const std::string text = error.what();
    return text.find("lost its group: ") == std::string::npos ? "a strange " + text : "GroupError";
  }
}

TEST(ShardedTable, KilledRanksAreErrorsWheneverTheyDie) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int kill = 0; kill < STBENCH_KILLS; ++kill) {
    const int ranks = 2 + kill % 3, killed = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const auto time = std::chrono::microseconds(1 + random() % 30000);
    const HeldPort port;
    const bool node_first = random() % 2 == 1;
    const stbench::test::TemporaryFolder memory;
    auto answers = in_ranks(ranks, [&](int rank) {
      return until_lost(port, rank, ranks, killed, node_first, time, memory.path());
    });
    std::vector<std::string> expected(static_cast<std::size_t>(ranks), "GroupError");
    expected[static_cast<std::size_t>(killed)] = "";
    ASSERT_EQ(answers, expected) << "kill " << kill << " of seed " << seed << ": rank " << killed << " of "
                                 << ranks << " after " << time.count() << " us";
    const auto shards = noted_memory(memory.path());
    EXPECT_EQ(shards.size(), node_first ? static_cast<std::size_t>(ranks) : 0U);
    for (const auto& shard : shards) EXPECT_FALSE(test::is_in_use(shard)) << "the memory of a shard is left";
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
  std::cout << "counted " << STBENCH_KILLS << " killed ranks\n";
}

}  // namespace
}  // namespace speedtorch
