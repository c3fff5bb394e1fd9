#include "speedtorch/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace speedtorch {
namespace {

TEST(Threads, EveryItemIsDoneOnce) {
  std::vector<std::atomic<int>> done(100'000);
  parallel_for(100'000, 100, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) ++done[static_cast<std::size_t>(i)];
  });
  for (const auto& count : done) EXPECT_EQ(count, 1);
}

/// Without OpenMP, at::parallel_for is a loop on one thread, and nothing but the speed shows it.
TEST(Threads, AreReallySeveral) {
  std::thread([] {
    set_threads(2, {});
    std::mutex lock;
    std::set<std::thread::id> seen;
    parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      const std::lock_guard guard(lock);
      seen.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(seen.size(), 2U);
  }).join();
}

TEST(Threads, AreAsManyAsAskedAndPinnedWhereAsked) {
  // In its own thread, so that the test's own affinity stays.
  std::thread([] {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int first = 0;
    while (!CPU_ISSET(static_cast<std::size_t>(first), &allowed)) ++first;
    set_threads(1, std::vector<int>{first});
    EXPECT_EQ(at::get_num_threads(), 1);
    ASSERT_EQ(pinned_cpus().size(), 1u);
    EXPECT_EQ(pinned_cpus()[0], first);
    cpu_set_t now;
    ASSERT_EQ(::sched_getaffinity(0, sizeof now, &now), 0);
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(first), &now));
    set_threads(1, {});
    EXPECT_TRUE(pinned_cpus().empty());
  }).join();
}

TEST(Threads, ACallersThreadsAreItsOwn) {
  std::thread([] {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(static_cast<std::size_t>(last), &allowed)) --last;
    set_threads(2, {});
    std::thread([&] {
      set_caller_threads(1, std::vector<int>{last});
      cpu_set_t now;
      ASSERT_EQ(::sched_getaffinity(0, sizeof now, &now), 0);
      EXPECT_EQ(CPU_COUNT(&now), 1);
      EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(last), &now));
      EXPECT_EQ(at::get_num_threads(), 1);
    }).join();
    cpu_set_t after;
    ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&after, &allowed));
    EXPECT_EQ(at::get_num_threads(), 2);
    EXPECT_TRUE(pinned_cpus().empty());
  }).join();
}

}  // namespace
}  // namespace speedtorch
