/// Shards in pinned and in device memory. Needs a GPU; without one each test is skipped with the reason. The
/// ranks are forked before anything uses CUDA: a child that is forked later cannot use it. So this program is
/// one by itself, and even whether there is a GPU is asked in a child.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <vector>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/sharded/sharded_files.h"
#include "speedtorch/sharded/sharded_table.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/sharded/checks.h"
#include "tests/speedtorch/sharded/ranks.h"

namespace speedtorch {
namespace {

using test::Differences;
using test::expect_text;
using test::HeldPort;
using test::in_ranks;
using test::message;
using test::mine_of;
using test::of_all;
using test::on_this_host;
using test::scattered;
using test::values_of;
using testing::Each;

// A prime. Each of two ranks has more rows than a message's header has room for numbers (1,024).
constexpr std::int64_t kRows = 5003;

/// The placement of each rank's shard. A single rank is rank 0.
struct Placements {
  const char* name;
  Placement of_rank[2];
};
constexpr Placements kPlacements[] = {
    {"pinned", {Placement::pinned, Placement::pinned}},
    {"device", {Placement::device, Placement::device}},
    {"device and pageable", {Placement::device, Placement::pageable}},
    {"pinned and device", {Placement::pinned, Placement::device}},
};

/// The ranks share the GPUs that there are.
at::Device gpu_of_rank(int rank) {
  return {at::kCUDA, static_cast<c10::DeviceIndex>(rank % cuda_status().devices)};
}

TableOptions shard_of(const Placements& placements, int rank) {
  const auto placement = placements.of_rank[rank];
  if (!needs_cuda(placement)) return {.placement = placement};
  return {.placement = placement, .device = gpu_of_rank(rank)};
}

/// An optimizer's states are where its table is.
TableOptions states_on(const at::Device& device) {
  if (device.is_cpu()) return {.placement = Placement::pageable};
  return {.placement = Placement::device, .device = device};
}

/// Each rank can compute the batch of any rank. Its rows are few, so that most occur several times.
at::Tensor batch_of(int rank, std::int64_t count, std::uint64_t seed = 0) {
  auto generator = at::detail::createCPUGenerator(seed * 100 + static_cast<std::uint64_t>(rank));
  return at::randint(0, 300, {count}, generator, at::kLong) * 17 % kRows;
}

at::Tensor whole_table() { return test::table_of(kRows); }

/// The shard as its device sees it: for pinned memory this reads the GPU's alias, not what the host wrote.
at::Tensor shard_on_host(const ShardedTable& table) { return table.shard().tensor().cpu(); }

void check_gathers(const RankGroup& group, const at::Tensor& whole, const ShardedOptions& options,
                   const std::string& name, Differences& found) {
  auto table = ShardedTable::from_array(group, whole, options);
  const auto select = [&](const at::Tensor& index) { return at::index_select(whole, 0, index); };
  for (const std::int64_t count : {0, 1, 7, 400}) {
    // Rank 1 has an empty batch while rank 0 has none, and then each has a length of its own.
    for (const bool all_ask : {false, true}) {
      const auto batch = batch_of(group.rank(), group.rank() == 1 && !all_ask ? 0 : count + group.rank());
      found.expect(at::equal(table.gather(batch), select(batch)), name + ": " + std::to_string(count));
      auto out = at::empty_like(select(batch));
      table.gather(batch.to(at::kInt), out);
      found.expect(at::equal(out, select(batch)), name + " into a tensor: " + std::to_string(count));
    }
  }
  const auto repeated = at::full({1000}, kRows - 1, at::kLong);
  found.expect(at::equal(table.gather(repeated), select(repeated)), name + ": one row, a thousand times");
  found.expect(table.last_exchange().asked_rows <= 1, name + ": a repeated row travels again");
  if (options.chunk_bytes < 1000) return;  // thousands of launches
  const auto all = at::arange(kRows - 1, -1, -1, at::kLong);
  found.expect(at::equal(table.gather(all), select(all)), name + ": all rows");
}

void check_scatters(const RankGroup& group, const ShardedOptions& options, const std::string& name,
                    Differences& found) {
  const auto count = options.chunk_bytes < 1000 ? 400 : 4000;
  for (const bool empty : {false, true}) {
    const auto counts = [&](int rank) -> std::int64_t { return empty && rank == 1 ? 0 : count + rank; };
    const auto batches = of_all(group.size(), [&](int r) { return batch_of(r, counts(r)); });
    const auto values = of_all(group.size(), [&](int r) { return values_of(r, counts(r)); });
    const auto mine = batch_of(group.rank(), counts(group.rank()));
    for (const auto policy : {Duplicates::last, Duplicates::accumulate}) {
      auto table = ShardedTable::from_array(group, whole_table(), options);
      table.scatter(mine, values_of(group.rank(), counts(group.rank())), policy);
      const auto expected = scattered(whole_table(), batches, values, policy == Duplicates::accumulate);
      const auto what = name + (policy == Duplicates::last ? ": last" : ": accumulate");
      found.expect(at::equal(shard_on_host(table), mine_of(table, expected)), what);
      found.expect(at::equal(table.gather(mine), at::index_select(expected, 0, mine)), what + ", gathered");
    }
  }
}

/// The rank serves its rows after the work that is queued on the current stream of the shard's GPU, also if
/// the host reads them from pinned memory.
void check_queued_work(const RankGroup& group, const ShardedOptions& options, const std::string& name,
                       Differences& found) {
  auto table = ShardedTable::from_array(group, whole_table(), options);
  const auto index = batch_of(group.rank(), 100);
  auto expected = whole_table();
  for (int k = 0; k < 3; ++k) {
    table.shard().tensor().mul_(3).add_(1);
    expected.mul_(3).add_(1);
    found.expect(at::equal(table.gather(index), at::index_select(expected, 0, index)),
                 name + ": a gather before the GPU's work is done");
    table.scatter(index, values_of(group.rank(), 100), Duplicates::accumulate);
    for (int r = 0; r < group.size(); ++r) scattered(expected, batch_of(r, 100), values_of(r, 100), true);
  }
  found.expect(at::equal(shard_on_host(table), mine_of(table, expected)),
               name + ": scatters between the GPU's work");
}

/// Gradients arrive by rank and then by position, wherever the shard is.
void check_collects(const RankGroup& group, const ShardedOptions& options, const std::string& name,
                    Differences& found) {
  auto table = ShardedTable::from_array(group, whole_table(), options);
  std::vector<std::int64_t> rows;
  std::vector<at::Tensor> grads;
  for (int r = 0; r < group.size(); ++r) {
    const auto batch = batch_of(r, 60), values = values_of(r, 60);
    for (std::int64_t k = 0; k < 60; ++k) {
      const auto place = table.owners().place_of(batch[k].item<std::int64_t>());
      if (place.rank == group.rank()) rows.push_back(place.row), grads.push_back(values[k]);
    }
  }
  const auto [got_rows, got_grads] = table.collect(batch_of(group.rank(), 60), values_of(group.rank(), 60));
  found.expect(at::equal(got_rows.to(at::kLong), at::tensor(rows, at::kLong)), name + ": collected rows");
  found.expect(at::equal(got_grads, at::stack(grads)), name + ": collected gradients");
}

/// step() updates on the host. So a rank whose shard the host does not reach refuses, and it refuses for all.
void check_refused_step(const RankGroup& group, const Placements& placements, const ShardedOptions& options,
                        const std::string& name, Differences& found) {
  const int refusing = placements.of_rank[0] == Placement::device ? 0 : 1;
  auto table = ShardedTable::from_array(group, whole_table(), options);
  const auto index = batch_of(group.rank(), 9);
  const bool refuses = table.shard().placement() == Placement::device;
  const auto stepped = refuses ? table.shard().tensor() : table.shard().host_tensor();
  SparseRows optimizer(stepped, SGDOptions{.lr = 1}, states_on(stepped.device()));
  const auto step = [&] { table.step(optimizer, index, values_of(group.rank(), 9)); };
  if (refuses)
    expect_text(message<PlacementError>(step), "device", found);
  else
    expect_text(message<RankError>(step), "rank " + std::to_string(refusing), found);
  found.expect(at::equal(shard_on_host(table), mine_of(table, whole_table())),
               name + ": a refused step wrote");
  found.expect(at::equal(table.gather(index), at::index_select(whole_table(), 0, index)),
               name + ": no gather after a refused step");
}

/// Steps of ranks that share each batch equal those of one process, bit for bit. `step_shard` takes the
/// table, the optimizer of the shard, and this rank's part of the batch.
template <class Step>
void check_training(const RankGroup& group, const ShardedOptions& options, const at::Device& device,
                    const std::string& name, Step step_shard, Differences& found) {
  const UpdateOptions adagrad = AdagradOptions{.lr = 0.1};
  const auto table = ShardedTable::from_array(group, whole_table(), options);
  SparseRows alone(whole_table().to(device), adagrad, states_on(device));
  SparseRows rows(device.is_cpu() ? table.shard().host_tensor() : table.shard().tensor(), adagrad,
                  states_on(device));
  constexpr std::int64_t batch = 64;  // of all ranks
  const auto share = batch / group.size(), first = share * group.rank();
  for (std::uint64_t step = 0; step < 20; ++step) {
    const auto index = batch_of(7, batch, step), grad = values_of(7, batch, step) - 0.5;
    alone.step(index.to(device), grad.to(device));
    step_shard(table, rows, index.narrow(0, first, share), grad.narrow(0, first, share));
  }
  const auto trained = alone.table().cpu();
  found.expect(rows.steps() == 20 && !at::equal(trained, whole_table()), name + ": no training");
  found.expect(at::equal(shard_on_host(table), mine_of(table, trained)), name + ": training differs");
  // The sums of squares show the order in which gradients were added; the rows' rounding may hide it.
  found.expect(
      at::equal(rows.states().front().table.cpu(), mine_of(table, alone.states().front().table.cpu())),
      name + ": the optimizer's state differs");
}

void check_steps(const RankGroup& group, const Placements& placements, Differences& found) {
  const std::string name = std::string("steps, ") + placements.name;
  const ShardedOptions options{
      .sharding = Sharding::hashed, .shard = shard_of(placements, group.rank()), .chunk_bytes = 100};
  check_collects(group, options, name, found);
  bool any_on_device = false;
  for (int r = 0; r < group.size(); ++r)
    any_on_device = any_on_device || placements.of_rank[r] == Placement::device;
  if (any_on_device) check_refused_step(group, placements, options, name, found);
  // No single process steps on the GPU and on the host, so there is nothing to compare mixed placements with.
  if (group.size() == 2 && placements.of_rank[0] != placements.of_rank[1]) return;
  if (placements.of_rank[0] == Placement::pinned) {
    const auto step = [](ShardedTable table, SparseRows& rows, const auto& index, const auto& grad) {
      table.step(rows, index, grad);
    };
    check_training(group, options, at::kCPU, name, step, found);
  }
  // The same over the GPU's tensor, for which the caller steps what collect() returns.
  const auto device = gpu_of_rank(group.rank());
  const auto step = [&](ShardedTable table, SparseRows& rows, const auto& index, const auto& grad) {
    const auto [mine, grads] = table.collect(index, grad);
    rows.step(mine.to(device), grads.to(device));
  };
  check_training(group, options, device, name + " on the GPU", step, found);
}

void check_files(const RankGroup& group, const Placements& placements, const std::string& folder,
                 Differences& found) {
  const auto path = folder + "/" + placements.name + " " + std::to_string(group.size());
  const auto shard = shard_of(placements, group.rank());
  save_sharded(ShardedTable::from_array(group, whole_table(), {.sharding = Sharding::cyclic, .shard = shard}),
               path);
  const auto loaded = load_sharded(group, path, {.sharding = Sharding::hashed, .shard = shard});
  found.expect(at::equal(shard_on_host(loaded), mine_of(loaded, whole_table())),
               std::string(placements.name) + ": loaded");
  found.expect(
      at::equal(load_sharded_as_table(path, {.placement = Placement::pageable}).host_tensor(), whole_table()),
      std::string(placements.name) + ": loaded as one table");
}

/// The empty text, or why there is no GPU.
std::string absent_gpu() {
  return in_ranks(1, [](int) -> std::string {
    const auto& status = cuda_status();
    return status.available ? "" : status.found + "; missing: " + status.missing;
  })[0];
}

/// Runs checks on one and on two ranks: `work` takes the group, where the shards are, and what to report to.
template <class Work>
void expect_no_differences(Work work) {
  for (const int size : {1, 2}) {
    const HeldPort port;
    const auto checks = [&](int rank) {
      const RankGroup group(rank, size, on_this_host(port));
      Differences found;
      for (const auto& placements : kPlacements)
        if (size > 1 || placements.of_rank[0] == placements.of_rank[1]) work(group, placements, found);
      group.barrier();
      return found.text() + "done";
    };
    EXPECT_THAT(in_ranks(size, checks), Each("done")) << size << " ranks";
  }
}

TEST(ShardedTable, HoldsShardsInPinnedAndDeviceMemory) {
  if (const auto why = absent_gpu(); !why.empty()) GTEST_SKIP() << why;
  expect_no_differences([](const RankGroup& group, const Placements& placements, Differences& found) {
    for (const auto sharding : {Sharding::blocks, Sharding::cyclic, Sharding::hashed}) {
      for (const std::int64_t chunk : {std::int64_t{100}, std::int64_t{1} << 20}) {
        const ShardedOptions options{
            .sharding = sharding, .shard = shard_of(placements, group.rank()), .chunk_bytes = chunk};
        const auto name = std::string(placements.name) + ", " + std::string(to_string(sharding)) +
                          ", chunks of " + std::to_string(chunk);
        check_gathers(group, whole_table(), options, name, found);
        check_scatters(group, options, name, found);
        check_queued_work(group, options, name, found);
      }
    }
    // Rows of 5 bytes, in chunks of 20 of them.
    check_gathers(group, at::arange(kRows * 5).remainder(251).to(at::kByte).view({kRows, 5}),
                  {.shard = shard_of(placements, group.rank()), .chunk_bytes = 100},
                  std::string(placements.name) + ", bytes", found);
  });
}

TEST(ShardedTable, StepsShardsInPinnedAndDeviceMemory) {
  if (const auto why = absent_gpu(); !why.empty()) GTEST_SKIP() << why;
  expect_no_differences(check_steps);
}

TEST(ShardedFiles, ShardsInPinnedAndDeviceMemoryAreSavedAndLoaded) {
  if (const auto why = absent_gpu(); !why.empty()) GTEST_SKIP() << why;
  const stbench::test::TemporaryFolder folder;
  expect_no_differences([&](const RankGroup& group, const Placements& placements, Differences& found) {
    check_files(group, placements, folder.path().string(), found);
  });
}

TEST(ShardedTable, NodesCannotShareShardsInPinnedAndDeviceMemory) {
  if (const auto why = absent_gpu(); !why.empty()) GTEST_SKIP() << why;
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    Differences found;
    for (const auto placement : {Placement::pinned, Placement::device}) {
      const ShardedOptions options{.shard = {.placement = placement, .device = gpu_of_rank(rank)},
                                   .node_first = true};
      expect_text(message<PlacementError>([&] {
                    ShardedTable::empty(group, {8, 2}, at::kFloat, options);
                  }),
                  "shared", found);
    }
    group.barrier();
    return found.text() + "done";
  });
  EXPECT_THAT(answers, Each("done"));
}

}  // namespace
}  // namespace speedtorch
