// 8 threads that move rows at once, on every instruction set and with every way to store: what they share is
// read by all, and what they write lies side by side.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "speedtorch/kernels/rows/rows.h"
#include "tests/speedtorch/kernels/forced_isa.h"
#include "tests/speedtorch/kernels/row_buffer.h"
#include "tests/speedtorch/kernels/row_trial.h"
#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

constexpr std::int64_t kCallers = 8;

/// Calls `caller(0)` to `caller(7)`, each on a thread of its own.
template <class Caller>
void at_once(Caller caller) {
  std::vector<std::thread> threads;
  for (std::int64_t k = 0; k < kCallers; ++k) threads.emplace_back([&caller, k] { caller(k); });
  for (std::thread& thread : threads) thread.join();
}

using ConcurrentRows = OnPath;

TEST_P(ConcurrentRows, EachGathersItsOwnFromOneTable) {
  constexpr std::int64_t kCount = 4001;
  const RowBuffer table({kCount, 100, 4, 0}, 1);
  std::array<bool, kCallers> good{};
  at_once([&](std::int64_t caller) {
    auto index = scattered_index<std::int64_t>(kCount, kCount);
    std::rotate(index.begin(), index.begin() + caller * 100, index.end());
    RowBuffer chosen({kCount, 100, 0, 0}, 2), forced({kCount, 100, 0, 0}, 3);
    const auto expected_chosen = plain_gather(table, index, chosen);
    const auto expected_forced = plain_gather(table, index, forced);
    gather_rows(table.view(), index.data(), kCount, chosen.view(), ThreadPool(2));
    run(plan_forced(Direction::gather, table.view(), index.data(), forced.view(), stores(), 8), 0, kCount);
    good[static_cast<std::size_t>(caller)] =
        chosen.bytes() == expected_chosen && forced.bytes() == expected_forced;
  });
  for (std::size_t caller = 0; caller < good.size(); ++caller) EXPECT_TRUE(good[caller]) << caller;
}

/// Neighbouring rows belong to different threads, so that whoever writes a byte beyond its row takes it from
/// another: that is a race, and a row that reads back wrong.
TEST_P(ConcurrentRows, EachScattersItsOwnIntoOneTable) {
  constexpr std::int64_t kEach = 400;
  constexpr std::int64_t kRows = kCallers * kEach;
  for (const std::int64_t width : {1, 4, 13, 36, 64, 100, 516}) {
    RowBuffer table({kRows, width, 7, 0}, 1);
    const RowBuffer values({kRows, width, 0, 0}, 2);
    std::vector<std::int32_t> index(static_cast<std::size_t>(kRows));
    for (std::int64_t i = 0; i < kRows; ++i) {
      index[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i / kEach + i % kEach * kCallers);
    }
    const auto expected = plain_scatter(values, index, table);
    const auto move = plan_forced(Direction::scatter, values.view(), index.data(), table.view(), stores(), 4);
    at_once([&](std::int64_t caller) { run(move, caller * kEach, (caller + 1) * kEach); });
    EXPECT_TRUE(table.bytes() == expected) << width;
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, ConcurrentRows, all_paths(), path_name);

}  // namespace
}  // namespace speedtorch::kernels
