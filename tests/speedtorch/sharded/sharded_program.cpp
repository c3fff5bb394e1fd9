// A rank of any launcher: gathers rows, trains on them, and prints what it verified. With arguments: the
// number of a rank that ends itself first, as a crash would, or -1; and of a rank that is late for each
// operation.
#include <ATen/ATen.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/sharded/sharded_table.h"

namespace {

int run(int killed, int slow) {
  using speedtorch::RankGroup, speedtorch::ShardedTable, speedtorch::SparseRows;

  const auto whole = at::arange(1000 * 16, at::kFloat).view({1000, 16});

  // Rank and size come from torchrun, srun or mpirun.
  const auto group = RankGroup::from_environment({.timeout = std::chrono::minutes(2)});
  auto table = ShardedTable::from_array(group, whole, {.sharding = speedtorch::Sharding::hashed});
  if (group.rank() == killed) ::raise(SIGKILL);

  const auto dawdle = [&] {
    if (group.rank() == slow) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  };
  dawdle();

  // Each rank asks for rows of its own, or for none.
  const auto index = at::arange(group.rank() * 10, group.rank() == 0 ? 0 : 1000, 7, at::kLong);
  const auto rows = table.gather(index);  // [n, 16]
  const bool right = at::equal(rows, whole.index_select(0, index));

  dawdle();
  // The gradients of all ranks meet at the rows' own ranks, which step them.
  SparseRows optimizer(table.shard().host_tensor(), speedtorch::SGDOptions{.lr = 1.0});
  table.step(optimizer, index, at::ones_like(rows));
  auto named = at::zeros({1000});
  for (int r = 1; r < group.size(); ++r)
    named.index_add_(0, at::arange(r * 10, 1000, 7, at::kLong), at::ones({(1000 - r * 10 + 6) / 7}));
  const auto all = at::arange(1000, at::kLong);
  const bool stepped = at::equal(table.gather(all), whole - named.unsqueeze(1));
  std::printf("rank %d of %d: %s\n", group.rank(), group.size(), right && stepped ? "right" : "wrong");
  group.barrier();
  return right && stepped ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count > 1 ? std::stoi(arguments[1]) : -1, count > 2 ? std::stoi(arguments[2]) : -1);
  } catch (const speedtorch::GroupError& error) {
    std::printf("GroupError: %s\n", error.what());
  } catch (const std::exception& error) {
    std::printf("another error: %s\n", error.what());
  }
  return 3;
}
