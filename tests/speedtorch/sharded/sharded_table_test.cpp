#include "speedtorch/sharded/sharded_table.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "speedtorch/error.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/sharded/message_bytes.h"
#include "speedtorch/sharded/row_exchange.h"
#include "speedtorch/sharded/sharded_files.h"
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
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kRows = 103;
constexpr Sharding kShardings[] = {Sharding::blocks, Sharding::cyclic, Sharding::hashed};

/// Each rank can compute the batch of any rank.
at::Tensor batch_of(int rank, std::int64_t count, std::uint64_t seed = 0) {
  auto generator = at::detail::createCPUGenerator(seed * 100 + static_cast<std::uint64_t>(rank));
  return at::randint(0, kRows, {count}, generator, at::kLong);
}

at::Tensor whole_table() { return test::table_of(kRows); }

void check_gathers(const RankGroup& group, const ShardedOptions& options, Differences& found) {
  const auto whole = whole_table();
  const auto name =
      std::string(to_string(options.sharding)) + " in chunks of " + std::to_string(options.chunk_bytes);
  auto table = ShardedTable::from_array(group, whole, options);
  for (const std::int64_t count : {0, 1, 7, 500}) {
    // One rank has an empty batch, and each a length of its own.
    const auto batch = batch_of(group.rank(), group.rank() == 1 ? 0 : count * (group.rank() + 1));
    found.expect(at::equal(table.gather(batch), whole.index({batch})), name + ": " + std::to_string(count));
    const auto narrow = batch.to(at::kInt);
    found.expect(at::equal(table.gather(narrow), whole.index({batch})), name + " by int32");
    auto out = at::empty({batch.numel(), 3, 2});
    table.gather(batch, out);
    found.expect(at::equal(out, whole.index({batch})), name + " into a tensor");
  }
  const auto square = batch_of(group.rank(), 12).view({3, 4});
  found.expect(at::equal(table.gather(square), whole.index({square})), name + ": an index of two dimensions");
  found.expect(at::equal(table.gather(RowRange{3, 90, 4}), whole.slice(0, 3, 90, 4)), name + ": a range");
  // Nobody asks twice for a row, however often a batch names it.
  table.gather(at::zeros({1000}, at::kLong) + kRows - 1);
  found.expect(table.last_exchange().asked_rows <= 1, name + ": a repeated row travels again");
}

void check_scatters(const RankGroup& group, const ShardedOptions& options, Differences& found) {
  const auto name = "scatter to " + std::string(to_string(options.sharding));
  const auto counts = [](int rank) { return rank == 2 ? std::int64_t{0} : std::int64_t{40} + rank; };
  const auto batches = of_all(group.size(), [&](int r) { return batch_of(r, counts(r)); });
  const auto values = of_all(group.size(), [&](int r) { return values_of(r, counts(r)); });
  const auto mine = batch_of(group.rank(), counts(group.rank()));
  const auto my_values = values_of(group.rank(), counts(group.rank()));
  for (const auto policy : {Duplicates::last, Duplicates::accumulate}) {
    auto table = ShardedTable::from_array(group, whole_table(), options);
    table.scatter(mine, my_values, policy);
    const auto expected = scattered(whole_table(), batches, values, policy == Duplicates::accumulate);
    found.expect(at::equal(table.shard().host_tensor(), mine_of(table, expected)), name);
  }
  for (const auto policy : {Duplicates::none, Duplicates::reject}) {  // each row once
    auto table = ShardedTable::from_array(group, whole_table(), options);
    const auto own = at::arange(group.rank(), kRows, group.size(), at::kLong).flip(0);
    table.scatter(own, values_of(group.rank(), own.numel()), policy);
    auto expected = whole_table();
    for (int r = 0; r < group.size(); ++r) {
      const auto theirs = at::arange(r, kRows, group.size(), at::kLong).flip(0);
      expected = scattered(expected, theirs, values_of(r, theirs.numel()), false);
    }
    found.expect(at::equal(table.shard().host_tensor(), mine_of(table, expected)),
                 name + " without duplicates");
  }
}

/// 200 steps of ranks that share each batch equal those of one process, bit for bit.
void check_training(const RankGroup& group, const ShardedOptions& options, Differences& found) {
  const UpdateOptions adagrad = AdagradOptions{.lr = 0.1};
  auto alone = Table::from_array(whole_table());
  SparseRows all(alone.host_tensor(), adagrad);
  auto table = ShardedTable::from_array(group, whole_table(), options);
  SparseRows rows(table.shard().host_tensor(), adagrad);
  constexpr std::int64_t batch = 24;  // of all ranks
  const auto share = batch / group.size(), first = share * group.rank();
  for (std::uint64_t step = 0; step < 200; ++step) {
    const auto index = batch_of(7, batch, step);
    const auto gradient = [&](const at::Tensor& gathered, const at::Tensor& targets) {
      return gathered - targets;
    };
    const auto targets = values_of(7, batch, step);
    auto gathered = at::empty({batch, 3, 2});
    gather_rows(all.table(), index, gathered);
    const auto mine = index.narrow(0, first, share);
    const auto own = gradient(table.gather(mine), targets.narrow(0, first, share)).contiguous();
    all.step(index, gradient(gathered, targets));
    table.step(rows, mine, own);
  }
  found.expect(rows.steps() == 200 && !at::equal(alone.host_tensor(), whole_table()), "no training");
  found.expect(at::equal(table.shard().host_tensor(), mine_of(table, alone.host_tensor())),
               "training differs");
  // The sums of squares show the order in which gradients were added; the rows' rounding may hide it.
  found.expect(at::equal(rows.states().front().table, mine_of(table, all.states().front().table)),
               "the optimizer's state differs");
}

/// A rank that refuses its batch refuses for all, and the table serves the next one.
void check_refusals(const RankGroup& group, Differences& found) {
  auto table = ShardedTable::from_array(group, whole_table());
  const int last = group.size() - 1;
  auto bad = batch_of(group.rank(), 9);
  if (group.rank() == last) bad[4] = kRows + 5;
  const auto text = group.rank() == last ? message<IndexError>([&] { table.gather(bad); })
                                         : message<RankError>([&] { table.gather(bad); });
  expect_text(text, "index 108 at position 4 names no row", found);
  expect_text(text, "on rank " + std::to_string(last) + " of " + std::to_string(group.size()), found);
  const auto twice = at::zeros({1}, at::kLong) + 50;
  if (group.size() > 1) {
    const auto duplicate =
        message<DuplicateError>([&] { table.scatter(twice, values_of(0, 1), Duplicates::reject); });
    expect_text(duplicate, "row 50 is named at positions 0 and 0", found);
    expect_text(duplicate, "(on ranks 0 and 1)", found);
    const auto apart = message<DisagreementError>([&] {
      if (group.rank() == 0) {
        table.gather(twice);
      } else {
        table.scatter(twice, values_of(0, 1), Duplicates::last);
      }
    });
    expect_text(apart, "the operation: rank 0 has gather, rank 1 has scatter", found);
    const auto rows = message<DisagreementError>([&] {
      ShardedTable::empty(group, {group.rank() == 0 ? 8 : 9, 2}, at::kFloat);
    });
    expect_text(rows, "the shape: rank 0 has [8, 2], rank 1 has [9, 2]", found);
    const auto dtype = message<DisagreementError>([&] {
      ShardedTable::empty(group, {8, 2}, group.rank() == 0 ? at::kFloat : at::kHalf);
    });
    expect_text(dtype, "the dtype: rank 0 has Float, rank 1 has Half", found);
    const ShardedOptions spread{.sharding = group.rank() == 0 ? Sharding::cyclic : Sharding::hashed};
    expect_text(message<DisagreementError>([&] {
                  ShardedTable::empty(group, {8, 2}, at::kFloat, spread);
                }),
                "the sharding: rank 0 has cyclic, rank 1 has hashed", found);
  }
  expect_text(message<DuplicateError>(
                  [&] { table.scatter(at::zeros({2}, at::kLong), values_of(0, 2), Duplicates::reject); }),
              "row 0 is named at positions 0 and 1", found);
  found.expect(at::equal(table.shard().host_tensor(), mine_of(table, whole_table())),
               "a refused scatter wrote");
  const auto batch = batch_of(group.rank(), 9);
  found.expect(at::equal(table.gather(batch), whole_table().index({batch})), "no gather after refusals");
}

/// A shard of some MiB, which is read in several pieces into a file.
void check_large_files(const RankGroup& group, const std::string& folder, Differences& found) {
  const auto ranks = std::to_string(group.size()), mine = std::to_string(group.rank());
  const auto whole = test::table_of(200'000 * group.size() + 7);
  const auto name = folder + "/large-" + ranks, file = folder + "/mine-" + ranks + "-" + mine + ".npy";
  save_sharded(ShardedTable::from_array(group, whole, {.sharding = Sharding::hashed}), name);
  const auto loaded = load_sharded(
      group, name, {.sharding = Sharding::cyclic, .shard = {.placement = Placement::mapped, .file = file}});
  found.expect(at::equal(loaded.shard().host_tensor(), mine_of(loaded, whole)), "loaded in pieces");
  found.expect(at::equal(Table::from_file(file).host_tensor(), mine_of(loaded, whole)), "the file");
  found.expect(at::equal(load_sharded_as_table(name).host_tensor(), whole), "one table in pieces");
  const auto again = [&] {
    load_sharded(group, name, {.shard = {.placement = Placement::mapped, .file = folder + "/absent/x"}});
  };
  expect_text(message<FileError>(again), "'x' cannot be created: No such file or directory", found);
}

/// Saves to a folder per number of ranks, and loads what fewer ranks saved.
void check_files(const RankGroup& group, const std::string& folder, Differences& found) {
  const auto name = [&](int ranks) { return folder + "/" + std::to_string(ranks); };
  const auto table =
      ShardedTable::from_array(group, whole_table(), {.sharding = kShardings[group.size() % 3]});
  save_sharded(table, name(group.size()));
  for (int ranks = 1; ranks <= group.size(); ++ranks) {
    for (const auto sharding : kShardings) {
      const auto loaded = load_sharded(group, name(ranks), {.sharding = sharding});
      found.expect(at::equal(loaded.shard().host_tensor(), mine_of(loaded, whole_table())),
                   "loaded from " + std::to_string(ranks));
    }
  }
  found.expect(at::equal(load_sharded_as_table(name(group.size())).host_tensor(), whole_table()),
               "as one table");
  check_large_files(group, folder, found);
  const auto again = [&] { save_sharded(table, name(group.size())); };
  expect_text(group.rank() == 0 ? message<FileError>(again) : message<RankError>(again), "exists", found);
  const auto absent = message<FileError>([&] { load_sharded(group, folder + "/absent"); });
  expect_text(absent, "manifest.json", found);
}

/// Tensors whose memory does not hold their numbers are read as their numbers, and not written to.
void check_lazy(const RankGroup& group, Differences& found) {
  auto table = ShardedTable::from_array(group, whole_table());
  const auto index = at::arange(kRows).narrow(0, group.rank(), 1);
  const auto values = values_of(group.rank(), 1);
  for (const auto& lazy : {at::_neg_view(values), at::_efficientzerotensor({1, 3, 2}, at::kFloat)}) {
    const auto numbers = at::zeros({1, 3, 2}).copy_(lazy).resolve_neg();
    table.scatter(index, lazy, Duplicates::last);
    found.expect(at::equal(table.gather(index), numbers), "values");
    const auto grads = table.collect(index, lazy).second;
    const auto expected = table.collect(index, numbers).second;
    found.expect(at::equal(grads, expected), "gradients");
    auto out = lazy;
    expect_text(message<LazyTensorError>([&] { table.gather(index, out); }), "out (Float [1, 3, 2])", found);
  }
  found.expect(at::equal(table.gather(at::_neg_view(-index)), table.gather(index)), "index");
}

/// Ranks of a node read each other's rows, and see all that earlier operations wrote.
void check_node_first(const RankGroup& group, Differences& found) {
  const auto name = [](int rank) { return "half " + std::to_string(rank % 2); };
  for (const bool halves : {false, true}) {
    const ShardedOptions options{
        .sharding = Sharding::cyclic, .node_first = true, .node = halves ? name(group.rank()) : ""};
    check_gathers(group, options, found);
    check_scatters(group, options, found);
    check_training(group, options, found);
    auto table = ShardedTable::from_array(group, whole_table(), options);
    const auto all = at::arange(kRows);
    std::int64_t own = table.shard().rows(), near = 0;
    for (int r = 0; r < group.size(); ++r)
      if (r != group.rank() && (!halves || name(r) == name(group.rank()))) near += table.owners().rows_of(r);
    table.gather(all);
    found.expect(table.last_exchange().node_rows == near, "rows read from the node");
    found.expect(table.last_exchange().asked_rows == kRows - own - near, "rows asked for");
    for (std::uint64_t round = 0; round < 100; ++round) {
      // One rank is slow in each round: the others must neither read too early nor write too soon.
      if (static_cast<int>(round) % group.size() == group.rank())
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      const auto value = at::full({kRows, 3, 2}, static_cast<double>(round));
      const auto mine = at::arange(group.rank(), kRows, group.size(), at::kLong);
      table.scatter(mine, value.narrow(0, 0, mine.numel()), Duplicates::none);
      found.expect(at::equal(table.gather(all), value), "a gather of round " + std::to_string(round));
    }
  }
  auto two = ShardedTable::from_array(group, at::arange(4).view({2, 2}), {.node_first = true});
  found.expect(at::equal(two.gather(at::tensor({1, 0, 1})), at::tensor({2, 3, 0, 1, 2, 3}).view({3, 2})),
               "ranks without rows");
  if (group.size() < 2) return;
  const auto refused = [&](Placement placement) {
    ShardedTable::empty(group, {8, 2}, at::kFloat, {.shard = {.placement = placement}, .node_first = true});
  };
  expect_text(message<PlacementError>([&] { refused(Placement::libtorch); }), "shared", found);
  const auto placement = group.rank() == 1 ? Placement::libtorch : Placement::pageable;
  expect_text(group.rank() == 1 ? message<PlacementError>([&] { refused(placement); })
                                : message<RankError>([&] { refused(placement); }),
              "shared", found);
}

std::string all_checks(int rank, int size, const HeldPort& port, const std::string& folder) {
  const RankGroup group(rank, size, on_this_host(port));
  Differences found;
  for (const auto sharding : kShardings) {
    for (const std::int64_t chunk : {std::int64_t{100}, std::int64_t{4} << 20})
      check_gathers(group, {.sharding = sharding, .chunk_bytes = chunk}, found);
    check_scatters(group, {.sharding = sharding, .chunk_bytes = 100}, found);
  }
  for (const auto placement :
       {Placement::libtorch, Placement::pageable, Placement::hugepage, Placement::mapped}) {
    check_gathers(group, {.shard = {.placement = placement}}, found);
    check_scatters(group, {.shard = {.placement = placement}}, found);
    check_training(group, {.shard = {.placement = placement}}, found);
  }
  check_training(group, {.sharding = Sharding::hashed}, found);
  check_node_first(group, found);
  check_refusals(group, found);
  check_lazy(group, found);
  check_files(group, folder, found);
  group.barrier();
  return found.text() + "done";
}

TEST(ShardedTable, EqualsOneProcessOnOneToFourRanks) {
  const stbench::test::TemporaryFolder folder;
  for (const int size : {1, 2, 3, 4}) {
    const HeldPort port;
    EXPECT_THAT(
        in_ranks(size, [&](int rank) { return all_checks(rank, size, port, folder.path().string()); }),
        Each("done"))
        << size << " ranks";
  }
}

/// Rank 1 of 3 ends by `signal` while the others gather.
std::vector<std::string> with_lost_rank(int signal) {
  const HeldPort port;
  const auto work = [&](int rank) {
    const RankGroup group(rank, 3, on_this_host(port));
    auto table = ShardedTable::from_array(group, whole_table());
    if (rank == 1) ::raise(signal);
    auto lonely = group;
    if (signal == SIGSTOP)
      lonely.set_timeout(std::chrono::milliseconds(1500));  // a killed rank is noticed at once
    const auto batch = batch_of(rank, 50);
    const auto first = message<GroupError>([&] { table.gather(batch); });
    return first + "\n" + message<GroupError>([&] { table.gather(batch); });
  };
  return in_ranks(3, work, signal == SIGSTOP ? 1 : -1);
}

void expect_lost(const std::vector<std::string>& answers, int rank, const std::string& timeout) {
  const auto& text = answers[static_cast<std::size_t>(rank)];
  EXPECT_THAT(text, StartsWith("rank " + std::to_string(rank) + " of 3 (gloo on lo, rank 0 at 127.0.0.1:"));
  EXPECT_THAT(text, AllOf(HasSubstr(", time-out " + timeout + " ms) lost its group: "),
                          HasSubstr("lost its group before: ")));
}

TEST(ShardedTable, KilledRankIsAnErrorOnTheOthers) {
  const auto answers = with_lost_rank(SIGKILL);
  expect_lost(answers, 0, "120000"), expect_lost(answers, 2, "120000");
  EXPECT_EQ(answers[1], "");
}

TEST(ShardedTable, StoppedRankIsAnErrorOnTheOthers) {
  const auto answers = with_lost_rank(SIGSTOP);
  expect_lost(answers, 0, "1500"), expect_lost(answers, 2, "1500");
  EXPECT_EQ(answers[1], "");
}

TEST(ShardedTable, TablesThatAreMixedUpAreAnError) {
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    auto first = ShardedTable::from_array(group, whole_table());
    auto second = ShardedTable::from_array(group, whole_table());
    return message<DisagreementError>([&] { (rank == 0 ? first : second).gather(batch_of(rank, 50)); });
  });
  EXPECT_THAT(answers,
              Each(HasSubstr("disagree on the table, by the number that rank 0 gave it: rank 0 has ")));
}

TEST(ShardedTable, OutputsThatCannotBeWrittenAreRefused) {
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    auto table = ShardedTable::from_array(group, whole_table());
    const auto batch = batch_of(rank, 2);
    auto out = table.gather(batch);
    const auto wanted = out.clone();
    if (rank == 1) {
      auto tracked = out.clone().requires_grad_();
      auto shard = table.shard().host_tensor().narrow(0, 0, 2);
      return message<AutogradError>([&] { table.gather(batch, tracked); }) + "\n" +
             message<ShapeError>([&] { table.gather(batch, shard); });
    }
    const auto first = message<RankError>([&] { table.gather(batch, out); });
    const auto second = message<RankError>([&] { table.gather(batch, out); });
    return first + "\n" + second + (at::equal(out, wanted) ? "" : " and out was written");
  });
  EXPECT_THAT(answers[1], AllOf(HasSubstr("out"), HasSubstr("\n"), HasSubstr("the shard and out")));
  EXPECT_THAT(answers[0],
              AllOf(HasSubstr("rank 1"), HasSubstr("the shard and out"), Not(HasSubstr("written"))));
}

TEST(ShardedTable, AbandonedGroupStaysLost) {
  const HeldPort port;
  const auto answers = in_ranks(1, [&](int) {
    const RankGroup group(0, 1, on_this_host(port));
    auto table = ShardedTable::from_array(group, whole_table());
    group.abandon("an error halfway");
    return message<GroupError>([&] { table.group().barrier(); });
  });
  EXPECT_THAT(answers[0], HasSubstr("lost its group before: an error halfway"));
}

TEST(ShardedTable, VersionsAreComparedBeforeAnythingElse) {
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    if (rank == 0) return message<DisagreementError>([&] { ShardedTable::from_array(group, whole_table()); });
    return group.gather_texts("0.0.1").front();  // what a rank of that version says first
  });
  EXPECT_THAT(answers[0],
              HasSubstr("the library's version: rank 0 has " + answers[1] + ", rank 1 has 0.0.1"));
}

TEST(ShardedTable, RefusalsOfCallersReachTheOtherRanks) {
  const stbench::test::TemporaryFolder folder;
  const auto saved = folder.path().string() + "/table";
  const HeldPort port;
  const auto answers = in_ranks(3, [&](int rank) {
    const RankGroup group(rank, 3, on_this_host(port));
    auto table = ShardedTable::from_array(group, whole_table());
    save_sharded(table, saved);
    const auto index = batch_of(0, 4);
    const auto refusing = [&](const auto& refuse, const auto& work) {
      if (rank == 2) return refuse(), std::string("no index");
      return message<RankError>(work);
    };
    Differences found;
    for (const auto& text :
         {refusing([&] { table.refuse(ShardedOperation::gather, "no index"); }, [&] { table.gather(index); }),
          refusing([&] { table.refuse(ShardedOperation::scatter, "no index"); },
                   [&] { table.scatter(index, values_of(0, 4), Duplicates::last); }),
          refusing([&] { ShardedTable::refuse_new(group, "no index"); },
                   [&] { ShardedTable::from_array(group, whole_table()); }),
          refusing([&] { ShardedTable::refuse_new(group, "no index"); }, [&] { load_sharded(group, saved); }),
          refusing([&] { refuse_save(table, "no index"); }, [&] { save_sharded(table, saved + " again"); })})
      expect_text(text, "no index", found);
    const auto undefined = rank == 1 ? at::Tensor() : whole_table();
    const auto text = rank == 1 ? message<ShapeError>([&] { ShardedTable::from_array(group, undefined); })
                                : message<RankError>([&] { ShardedTable::from_array(group, undefined); });
    expect_text(text, "a table of shape []", found);
    found.expect(at::equal(table.gather(index), whole_table().index({index})), "no gather after refusals");
    group.barrier();
    return found.text() + "done";
  });
  EXPECT_THAT(answers, Each("done"));
}

/// Memory that tells when it is freed.
at::Tensor watched(std::vector<std::byte>& memory, bool& freed) {
  return at::from_blob(
      memory.data(), {std::ssize(memory)}, [&freed](void*) { freed = true; }, at::kByte);
}

TEST(RowExchange, KeepsMemoryThatMessagesMayStillReach) {
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    if (rank == 1) return std::string();  // and is lost
    std::vector<std::byte> memory(64);
    bool freed = false;
    Differences found;
    {
      RowExchange exchange(group, 16);
      exchange.expect(8, {0, 0}, {0, 8}, {at::empty({0}, at::kByte), watched(memory, freed)});
      const auto nothing = [](auto...) {};
      expect_text(message<GroupError>([&] { exchange.move(nothing, nullptr, nothing); }), "lost its group",
                  found);
      found.expect(!freed, "memory was freed while a message could arrive");
    }
    found.expect(freed, "memory was kept");
    return found.text() + "done";
  });
  EXPECT_EQ(answers[0], "done");
}

TEST(RowExchange, MessagesBeginAtAPage) {
  for (const std::int64_t bytes : {1, 4096, 1 << 20}) {
    const auto memory = message_bytes(bytes);
    EXPECT_EQ(memory.numel(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data_ptr()) % kMessagePage, 0U);
  }
  EXPECT_EQ(message_bytes(0).view(at::kComplexDouble).numel(), 0);
}

/// Lists of 0 to 9 chunks, in each direction, around the chunks that are on their way at once.
TEST(RowExchange, ChunksOfListsOfAnyLengthsArriveAndBeginAtAPage) {
  constexpr std::int64_t item_bytes = 264, chunk_items = 20;
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    RowExchange exchange(group, item_bytes * chunk_items);
    Differences found;
    const auto at_page = [&](const std::byte* data) {
      found.expect(reinterpret_cast<std::uintptr_t>(data) % kMessagePage == 0,
                   "a chunk begins inside a page");
    };
    for (std::int64_t chunks = 0; chunks < 100; ++chunks) {
      // A list that is no whole number of chunks, from each rank to the other.
      const std::int64_t of_rank[] = {chunks % 10 * chunk_items + chunks % 3, chunks / 10 * chunk_items};
      const auto other = 1 - rank;
      std::vector<std::int64_t> to(2), from(2);
      to[at_rank(other)] = of_rank[rank], from[at_rank(other)] = of_rank[other];
      exchange.expect(item_bytes, to, from);
      std::int64_t arrived = 0, parts_done = 0;
      exchange.move(
          [&](int, std::int64_t begin, std::int64_t count, std::byte* data) {
            at_page(data);
            for (std::int64_t k = 0; k < count; ++k)
              std::fill_n(data + k * item_bytes, item_bytes, static_cast<std::byte>(begin + k + rank));
          },
          [&](int, std::int64_t begin, std::int64_t count, const std::byte* data) {
            at_page(data);
            found.expect(begin == arrived, "a chunk is placed out of its turn");
            for (std::int64_t k = 0; k < count * item_bytes; ++k)
              if (data[k] != static_cast<std::byte>(begin + k / item_bytes + other)) {
                found.expect(false, "a byte is another one");
                break;
              }
            arrived += count;
          },
          [&](std::int64_t part, std::int64_t) { found.expect(part == parts_done++, "a part is left out"); });
      found.expect(arrived == of_rank[other], "items are missing");
    }
    return found.text() + "done";
  });
  EXPECT_THAT(answers, Each("done"));
}

/// Ends what this process can send on each connection to another, but not what it receives: the next write to
/// it fails, as to a peer that has just died.
int stop_sending() {
  int ended = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.ss_family == AF_INET)
      ended += ::shutdown(fd, SHUT_WR) == 0 ? 1 : 0;
  }
  return ended;
}

bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find(") T ") != std::string::npos;
}

/// Rank 0 writes to connections whose other end cannot react, with the default action of SIGPIPE.
std::string write_in_vain(const RankGroup& group) {
  ::signal(SIGPIPE, SIG_DFL);
  auto table = ShardedTable::from_array(group, whole_table());
  const auto other = std::stoi(group.gather_texts(std::to_string(::getpid())).back());
  if (group.rank() == 1) ::raise(SIGSTOP);
  while (!is_stopped(other)) ::usleep(1000);
  if (stop_sending() == 0) return "no connection";
  auto lonely = group;
  lonely.set_timeout(std::chrono::milliseconds(1500));  // Gloo tries again until then
  return message<GroupError>([&] { table.gather(batch_of(0, 50)); });
}

TEST(ShardedTable, WritingToALostRankIsAnErrorAndNoSignal) {
  const HeldPort port;
  const auto answers = in_ranks(
      2, [&](int rank) { return write_in_vain(RankGroup(rank, 2, on_this_host(port))); }, 1);
  EXPECT_THAT(answers[0], HasSubstr("lost its group: "));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

TEST(ShardedFiles, KilledRankLeavesNoFolder) {
  const stbench::test::TemporaryFolder folder;
  const HeldPort port;
  const auto answers = in_ranks(3, [&](int rank) {
    const RankGroup group(rank, 3, on_this_host(port));
    const auto table = ShardedTable::from_array(group, whole_table());
    if (rank == 1) ::raise(SIGKILL);
    return message<GroupError>([&] { save_sharded(table, folder.path().string() + "/table"); });
  });
  EXPECT_THAT(answers[0], HasSubstr("lost its group"));
  EXPECT_THAT(answers[2], HasSubstr("lost its group"));
  EXPECT_THAT(names_in(folder.path().string()), testing::IsEmpty());
}

/// Kills this process as soon as it has a file below the folder open that is not empty.
void die_while_writing_below(const std::string& folder) {
  std::thread([folder = std::filesystem::canonical(folder).string()] {
    for (std::error_code closed;;)
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const auto file = std::filesystem::read_symlink(entry.path(), closed).string();
        if (file.starts_with(folder) && std::filesystem::is_regular_file(entry.path(), closed) &&
            std::filesystem::file_size(entry.path(), closed) > 0 && !closed)
          ::kill(::getpid(), SIGKILL);
      }
  }).detach();
}

TEST(ShardedFiles, RankKilledInTheMiddleOfItsFileLeavesNoFolder) {
  const stbench::test::TemporaryFolder folder;
  const HeldPort port;
  const auto answers = in_ranks(3, [&](int rank) {
    const RankGroup group(rank, 3, on_this_host(port));
    const auto table = ShardedTable::empty(group, {3, 16 << 20}, at::kFloat);  // 64 MiB a file
    if (rank == 1) die_while_writing_below(folder.path().string());
    return message<GroupError>([&] { save_sharded(table, folder.path().string() + "/table"); });
  });
  EXPECT_EQ(answers[1], "");
  EXPECT_THAT(answers[0], HasSubstr("lost its group"));
  EXPECT_THAT(answers[2], HasSubstr("lost its group"));
  EXPECT_THAT(names_in(folder.path().string()), testing::IsEmpty());
}

TEST(ShardedFiles, OneTableIsReadByAllThreads) {
  const stbench::test::TemporaryFolder folder;
  const auto saved = folder.path().string() + "/table";
  const auto whole = test::table_of(400'007);
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    save_sharded(ShardedTable::from_array(group, whole, {.sharding = Sharding::hashed}), saved);
    return std::string("done");
  });
  ASSERT_THAT(answers, Each("done"));
  at::set_num_threads(2);
  EXPECT_TRUE(at::equal(load_sharded_as_table(saved).host_tensor(), whole));
}

TEST(ShardedFiles, DamagedFoldersAreErrors) {
  const stbench::test::TemporaryFolder folder;
  const auto saved = folder.path().string() + "/table";
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const RankGroup group(rank, 2, on_this_host(port));
    save_sharded(ShardedTable::from_array(group, whole_table()), saved);
    return std::string("done");
  });
  ASSERT_THAT(answers, Each("done"));
  const auto refusal = [&] { return message<FileError>([&] { load_sharded_as_table(saved); }); };
  EXPECT_EQ(refusal(), "no error");
  std::filesystem::rename(saved + "/shard-1.npy", saved + "/away");
  EXPECT_THAT(refusal(), HasSubstr("shard-1.npy"));
  std::filesystem::copy_file(saved + "/shard-0.npy", saved + "/shard-1.npy");
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("'shard-1.npy' is Float [52, 3, 2]"), HasSubstr("say Float [51, 3, 2]")));
  std::ofstream(saved + "/manifest.json") << "{\"format\": 2}\n";
  EXPECT_THAT(refusal(),
              HasSubstr("'manifest.json' is none of a sharded table in format 1: {\"format\": 2}"));
  std::filesystem::remove(saved + "/manifest.json");
  std::filesystem::create_symlink("/dev/zero", saved + "/manifest.json");
  EXPECT_THAT(refusal(), HasSubstr("'manifest.json' is not a regular file"));
}

TEST(RankGroup, NamesWhatCannotBeMade) {
  const HeldPort port;
  const auto answers = in_ranks(1, [&](int) {
    const auto alone = on_this_host(port, std::chrono::milliseconds(500));
    auto nowhere = alone;
    nowhere.interface = "no-such-interface";
    return message<GroupError>([&] { RankGroup(0, 2, alone); }) + "\n" +
           message<GroupError>([&] { RankGroup(0, 1, nowhere); }) + "\n" +
           message<OptionError>([&] { RankGroup(2, 2, alone); }) + "\n" +
           message<GroupError>([&] { RankGroup::from_environment(); });
  });
  EXPECT_THAT(answers[0],
              AllOf(HasSubstr("rank 0 of 2 (gloo on lo, rank 0 at 127.0.0.1:" +
                              std::to_string(port.number()) + ", time-out 500 ms) cannot make its group: "),
                    HasSubstr("gloo on no-such-interface"), HasSubstr("rank 2 of 2: ranks are 0 to size - 1"),
                    HasSubstr("no launcher's variables")));
}

TEST(RankGroup, AttemptsOfOneRankAloneLeaveTheOthersGroupWhole) {
  for (const int hasty : {0, 1}) {
    const HeldPort port;
    const auto answers = in_ranks(3, [&](int rank) {
      auto wrong = on_this_host(port);
      wrong.interface = "no-such-interface";
      if (rank == hasty) message<GroupError>([&] { RankGroup(rank, 3, wrong); });
      std::string said;
      for (int k = 0; k < 3; ++k) {
        const RankGroup group(rank, 3, on_this_host(port));
        if (rank == hasty) message<GroupError>([&] { RankGroup(rank, 3, wrong); });
        said += group.gather_texts(std::to_string(rank + k))[1];
        group.barrier();
      }
      return said;
    });
    EXPECT_THAT(answers, Each("123")) << hasty;
  }
}

TEST(RankGroup, AbsentRanksAreNamed) {
  const HeldPort port;
  const auto come = [&](int process) {  // as ranks 0 and 2 of 4
    const auto timeout = std::chrono::milliseconds(process == 0 ? 3000 : 120000);
    return message<GroupError>([&] { RankGroup(2 * process, 4, on_this_host(port, timeout)); });
  };
  EXPECT_THAT(in_ranks(2, come, 1)[0], HasSubstr("cannot make its group: no answer from rank 1, 3"));
}

TEST(RankGroup, ItsThreadsDoNotPreemptOthers) {
  const HeldPort port;
  const auto answers = in_ranks(2, [&](int rank) {
    const sched_param no_priority{};
    ::sched_setscheduler(0, SCHED_OTHER, &no_priority);
    const auto before = names_in("/proc/self/task");
    const RankGroup group(rank, 2, on_this_host(port));
    Differences found;
    found.expect(::sched_getscheduler(0) == SCHED_OTHER, "the caller's policy changed");
    int begun = 0;
    for (const auto& thread : names_in("/proc/self/task")) {
      if (std::find(before.begin(), before.end(), thread) != before.end()) continue;
      const int policy = ::sched_getscheduler(std::stoi(thread));
      if (policy < 0) continue;  // it has ended
      ++begun;
      found.expect(policy == SCHED_BATCH, "thread " + thread);
    }
    found.expect(begun > 0, "no thread began");
    group.barrier();  // rank 0 serves the store until the other is done
    return found.text();
  });
  EXPECT_THAT(answers, Each(""));
}

TEST(RankGroup, ReadsTheVariablesOfEachLauncher) {
  const std::pair<const char*, const char*> launchers[] = {{"RANK", "WORLD_SIZE"},
                                                           {"SLURM_PROCID", "SLURM_NTASKS"},
                                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                           {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank_name, size_name] : launchers) {
    const HeldPort held;
    const auto port = std::to_string(held.number());
    const auto answers = in_ranks(2, [&, rank_of = rank_name, size_of = size_name](int rank) {
      ::setenv(rank_of, std::to_string(rank).c_str(), 1), ::setenv(size_of, "2", 1);
      ::setenv("MASTER_ADDR", "127.0.0.1", 1), ::setenv("MASTER_PORT", port.c_str(), 1);
      const auto group = RankGroup::from_environment({.timeout = std::chrono::minutes(2)});
      const auto texts = group.gather_texts("I am " + std::to_string(group.rank()));
      group.barrier();
      return texts[0] + ", " + texts[1];
    });
    EXPECT_THAT(answers, Each("I am 0, I am 1")) << rank_name;
  }
}

TEST(RowOwners, EachRowIsOnOneRank) {
  for (const auto sharding : kShardings) {
    for (const std::int64_t rows : {0, 1, 2, 5, 64, 1000}) {
      for (const int ranks : {1, 2, 3, 7}) {
        const RowOwners owners(sharding, rows, ranks);
        std::vector<std::int64_t> held(static_cast<std::size_t>(ranks));
        for (std::int64_t row = 0; row < rows; ++row) {
          const auto place = owners.place_of(row);
          ASSERT_EQ(owners.row_of(place), row);
          ASSERT_TRUE(place.row >= 0 && place.row < owners.rows_of(place.rank)) << row;
          ++held[static_cast<std::size_t>(place.rank)];
        }
        for (int r = 0; r < ranks; ++r) EXPECT_EQ(held[static_cast<std::size_t>(r)], owners.rows_of(r));
      }
    }
  }
  EXPECT_THROW(sharding_of("rings"), OptionError);
  EXPECT_EQ(sharding_of("hashed"), Sharding::hashed);
}

}  // namespace
}  // namespace speedtorch
