#include "benchmarks/transfer/caller_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>

#include "benchmarks/tables/table_store.h"
#include "benchmarks/transfer/concurrent.h"
#include "speedtorch/rows/rows.h"

namespace stbench::caller_threads_test {
namespace {

using namespace std::chrono_literals;

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

TEST(CpusOfCaller, CallersDivideTheCpusOrShareThemInTurn) {
  using Cpus = std::vector<int>;
  const Cpus five{10, 11, 12, 13, 14};
  EXPECT_EQ(cpus_of_caller(five, 1, 0), five);
  EXPECT_EQ(cpus_of_caller(five, 2, 0), (Cpus{10, 11}));
  EXPECT_EQ(cpus_of_caller(five, 2, 1), (Cpus{12, 13, 14}));
  for (int caller = 0; caller < 8; ++caller)
    EXPECT_EQ(cpus_of_caller(five, 8, caller), Cpus{10 + caller % 5}) << caller;
  for (const int callers : {1, 2, 3, 4, 5}) {
    Cpus all;
    for (int caller = 0; caller < callers; ++caller) {
      const auto its = cpus_of_caller(five, callers, caller);
      all.insert(all.end(), its.begin(), its.end());
    }
    EXPECT_EQ(all, five) << "each core has one caller";
  }
  EXPECT_TRUE(cpus_of_caller({}, 3, 1).empty());
}

TEST(CallerThreads, EachCallerDoesEveryRoundOnceInItsOwnThread) {
  constexpr int count = 5, rounds = 7;
  CallerThreads callers(count, {});
  std::atomic<int> done[count][rounds] = {};
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int run = 1; run <= 3; ++run) {
    callers.run(rounds, [&](int caller, int round) {
      ++done[caller][round];
      const std::lock_guard guard(mutex);
      threads.insert(std::this_thread::get_id());
    });
    for (const auto& caller : done) {
      for (const auto& times : caller) EXPECT_EQ(times, run);
    }
  }
  EXPECT_EQ(threads.size(), std::size_t{count}) << "the same ones each time";
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(CallerThreads, RoundStartsWhenAllHaveFinishedThePreviousOne) {
  constexpr int count = 4;
  CallerThreads callers(count, {});
  std::atomic<int> ended{0};
  std::atomic<bool> early{false};
  callers.run(20, [&](int caller, int round) {
    if (ended < round * count) early = true;
    if (caller == round % count) std::this_thread::sleep_for(1ms);
    ++ended;
  });
  EXPECT_FALSE(early);
}

/// One sleeps longest; of two that came one after the other the sum would be longer, of the first to end the
/// time shorter.
TEST(CallerThreads, RunReturnsTheTimeOfTheLastCaller) {
  CallerThreads callers(3, {});
  const double seconds =
      callers.run(2, [](int caller, int) { std::this_thread::sleep_for(caller == 1 ? 60ms : 5ms); });
  EXPECT_GE(seconds, 0.120);
  const auto begin = std::chrono::steady_clock::now();
  const double again = callers.run(1, [](int, int) { std::this_thread::sleep_for(20ms); });
  EXPECT_LE(again, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  EXPECT_GE(again, 0.020);
}

TEST(CallerThreads, RunThrowsTheFirstErrorAndTheNextRunWorks) {
  CallerThreads callers(3, {});
  std::atomic<int> after{0};
  const auto fails = [&](int caller, int round) {
    if (caller == 1 && round == 1) throw std::runtime_error("the second's second");
    if (caller == 1 && round > 1) ++after;
  };
  EXPECT_THROW(callers.run(4, fails), std::runtime_error);
  EXPECT_EQ(after, 0);
  std::atomic<int> done{0};
  EXPECT_NO_THROW(callers.run(2, [&](int, int) { ++done; }));
  EXPECT_EQ(done, 6);
}

TEST(CallerThreads, EachCallerHasItsCoresAndAsManyThreads) {
  const auto cpus = allowed_cpus();
  const auto before = at::get_num_threads();
  for (const int count : {1, 2, 3}) {
    CallerThreads callers(count, cpus);
    std::vector<std::vector<int>> seen(static_cast<std::size_t>(count));
    std::vector<int> threads(static_cast<std::size_t>(count));
    callers.run(1, [&](int caller, int) {
      const auto k = static_cast<std::size_t>(caller);
      seen[k] = allowed_cpus();
      threads[k] = at::get_num_threads();
    });
    for (int caller = 0; caller < count; ++caller) {
      const auto its = cpus_of_caller(cpus, count, caller);
      EXPECT_EQ(seen[static_cast<std::size_t>(caller)], std::vector<int>{its.front()}) << "its own thread";
      EXPECT_EQ(threads[static_cast<std::size_t>(caller)], std::ssize(its));
    }
  }
  EXPECT_EQ(allowed_cpus(), cpus) << "this thread keeps its own";
  EXPECT_EQ(at::get_num_threads(), before);
}

constexpr std::uint64_t seed = 42;
constexpr std::int64_t rows = 1000, batch = 60, several = 3;

TransferCase there_and_back_cell() {
  return {.direction = Direction::round_trip,
          .placement = speedtorch::Placement::pageable,
          .distribution = "unique",
          .rows = rows,
          .dim = 5,
          .batch = batch,
          .cores = 1,
          .callers = several};
}

/// Set s names rows s, s + 5, s + 10 ...
std::shared_ptr<const IndexSets> every_fifth() {
  auto sets = std::make_shared<IndexSets>();
  for (std::size_t s = 0; s < sets->size(); ++s) {
    for (std::int64_t i = 0; i < several * batch; ++i)
      (*sets)[s].push_back((static_cast<std::int64_t>(s) + 5 * i) % rows);
  }
  return sets;
}

class ConcurrentCallersTest : public testing::Test {
 protected:
  /// Checks what a round leaves, as the suite does: the model's rows, then the table's.
  std::pair<harness::Check, harness::Check> checks_of(const ConcurrentCallers::Operation& operation,
                                                      int set) {
    fixture_.poison_model();
    fixture_.verifier.poison_rows(fixture_.operands, Pattern::indexed, set);
    fixture_.prepare_values(Pattern::indexed, set, 1);
    callers_.run(set, 1, operation);
    return {fixture_.check_model(Pattern::indexed, set, 1),
            fixture_.verifier.check_named(Pattern::indexed, set, 1)};
  }

  TableStore store_{seed};
  std::shared_ptr<speedtorch::Memory> memory_ =
      store_.filled(speedtorch::Placement::pageable, rows * 20, at::kCPU);
  TransferFixture fixture_{there_and_back_cell(), memory_, every_fifth(), seed};
  ConcurrentCallers callers_{fixture_, std::make_shared<CallerThreads>(several, std::vector<int>{})};
};

void there_and_back(Operands& slice, int set) {
  speedtorch::scatter_rows(slice.table(), slice.index(set), slice.values(set));
  speedtorch::gather_rows(slice.table(), slice.index(set), slice.model());
}

TEST_F(ConcurrentCallersTest, CallersHaveDisjointSlicesOfTheBatch) {
  ASSERT_EQ(std::ssize(fixture_.slices), several);
  EXPECT_EQ(fixture_.operands.payload_bytes(), several * batch * 20) << "of all callers";
  std::set<std::int64_t> seen;
  for (const auto& slice : fixture_.slices) {
    ASSERT_EQ(slice->index(3).numel(), batch);
    for (std::int64_t i = 0; i < batch; ++i)
      EXPECT_TRUE(seen.insert(slice->index(3)[i].item<std::int64_t>()).second) << "a row of two callers";
  }
  EXPECT_EQ(std::ssize(seen), several * batch);
}

TEST_F(ConcurrentCallersTest, RightResultsOfAllCallersPass) {
  for (const int set : {0, 5}) {
    const auto [model, table] = checks_of(there_and_back, set);
    EXPECT_EQ(model.mismatches + table.mismatches, 0) << model.first << table.first;
    EXPECT_EQ(model.rows, several * batch);
    EXPECT_EQ(table.rows, several * batch);
  }
}

TEST_F(ConcurrentCallersTest, VerifierNamesTheCallerWithAWrongResult) {
  const auto faulty = [this](Operands& slice, int set) {
    there_and_back(slice, set);
    if (&slice == fixture_.slices[2].get()) slice.model()[batch - 1].zero_();
  };
  const auto [model, table] = checks_of(faulty, 1);
  EXPECT_EQ(model.mismatches, 1);
  EXPECT_EQ(model.first.find("caller 2: "), 0U) << model.first;
  EXPECT_EQ(table.mismatches, 0);
}

TEST_F(ConcurrentCallersTest, VerifierDetectsOneCallersMissingWrites) {
  const auto faulty = [this](Operands& slice, int set) {
    if (&slice != fixture_.slices[1].get()) there_and_back(slice, set);
  };
  const auto [model, table] = checks_of(faulty, 1);
  EXPECT_EQ(model.mismatches, batch);
  EXPECT_EQ(table.mismatches, batch);
}

TEST_F(ConcurrentCallersTest, DeliveredResultsAreChecked) {
  const auto delivers = [this](Operands& slice, int set) {
    there_and_back(slice, set);
    auto result = slice.model().clone();
    if (&slice == fixture_.slices[0].get()) result[7].zero_();
    slice.deliver(result);
  };
  EXPECT_EQ(checks_of(delivers, 1).first.mismatches, 1);
  fixture_.forget_results();
  EXPECT_EQ(checks_of(there_and_back, 1).first.mismatches, 0);
}

}  // namespace
}  // namespace stbench::caller_threads_test
