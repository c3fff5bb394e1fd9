/// Ranks are killed at random instants, most of them in the middle of an exchange. The others get a
/// GroupError, whatever they are doing, nothing hangs, and they let go of the dead rank's shard.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/time.h>

#include <iostream>
#include <random>

#include "speedtorch/error.h"
#include "speedtorch/sharded/sharded_table.h"
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

/// The shared memory without a name that this process maps: a shard of each rank with `node_first`.
std::size_t shards_mapped() { return test::unnamed_memory_of(::getpid()).size(); }

/// Uses a table until a rank is killed. Nothing is left when the table is gone.
std::string until_lost(const HeldPort& port, int rank, int ranks, int killed, bool node_first,
                       std::chrono::microseconds time) {
  std::string answer;
  {
    const auto whole = at::arange(kRows * kWidth, at::kFloat).view({kRows, kWidth});
    const RankGroup group(rank, ranks, on_this_host(port, kTimeout));
    auto table = ShardedTable::from_array(
        group, whole, {.sharding = Sharding::hashed, .chunk_bytes = 1 << 15, .node_first = node_first});
    if (shards_mapped() != (node_first ? static_cast<std::size_t>(ranks) : 0U))
      return "shards are not mapped";
    group.barrier();
    if (rank == killed) die_after(time);
    try {
      answer = use_for_ever(table, whole, rank);
    } catch (const GroupError& error) {
      const std::string text = error.what();
      answer = text.find("lost its group: ") == std::string::npos ? "a strange " + text : "GroupError";
    }
  }
  return shards_mapped() == 0 ? answer : answer + ", and a shard is still mapped";
}

TEST(ShardedTable, KilledRanksAreErrorsWheneverTheyDie) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int kill = 0; kill < STBENCH_KILLS; ++kill) {
    const int ranks = 2 + kill % 3, killed = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const auto time = std::chrono::microseconds(1 + random() % 30000);
    const HeldPort port;
    const bool node_first = random() % 2 == 1;
    auto answers =
        in_ranks(ranks, [&](int rank) { return until_lost(port, rank, ranks, killed, node_first, time); });
    std::vector<std::string> expected(static_cast<std::size_t>(ranks), "GroupError");
    expected[static_cast<std::size_t>(killed)] = "";
    ASSERT_EQ(answers, expected) << "kill " << kill << " of seed " << seed << ": rank " << killed << " of "
                                 << ranks << " after " << time.count() << " us";
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
  std::cout << "counted " << STBENCH_KILLS << " killed ranks\n";
}

}  // namespace
}  // namespace speedtorch
