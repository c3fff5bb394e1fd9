#include "benchmarks/tables/write_log.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace stbench {
namespace {

constexpr std::int64_t table_rows = 500;

/// Sets that overlap within and between the patterns, with repeats.
std::shared_ptr<const IndexSets> random_sets(std::mt19937& random, int batch) {
  std::uniform_int_distribution<std::int64_t> row(0, table_rows - 1);
  auto sets = std::make_shared<IndexSets>();
  for (auto& set : *sets) {
    for (int i = 0; i < batch; ++i) set.push_back(row(random));
  }
  return sets;
}

TEST(WriteLog, LookupEqualsAPlainListOfWrites) {
  std::mt19937 random(5);
  const auto indexed = random_sets(random, 40), contiguous = random_sets(random, 40);
  WriteLog ledger(indexed, contiguous);
  ledger.index();
  std::map<std::int64_t, std::uint64_t> written;
  for (int turn = 0; turn < 60; ++turn) {
    const auto pattern = random() % 2 == 0 ? Pattern::indexed : Pattern::contiguous;
    const auto set = static_cast<int>(random() % harness::index_sets);
    const auto generation = random() % 7;  // also 0, and lower ones after higher ones
    ledger.write(pattern, set, generation);
    for (const auto row :
         (pattern == Pattern::indexed ? *indexed : *contiguous)[static_cast<std::size_t>(set)])
      written[row] = generation;
    for (std::int64_t row = 0; row < table_rows; ++row) {
      ASSERT_EQ(ledger.is_written(row), written.contains(row)) << row;
      ASSERT_EQ(ledger.generation_of(row), written.contains(row) ? written[row] : 0) << row;
    }
  }
  std::vector<std::int64_t> all;
  for (const auto& [row, generation] : written) all.push_back(row);
  EXPECT_EQ(ledger.written_rows(), all);
}

TEST(WriteLog, ClearForgetsAllWrites) {
  std::mt19937 random(6);
  WriteLog ledger(random_sets(random, 4), random_sets(random, 4));
  EXPECT_FALSE(ledger.fresh());
  ledger.write(Pattern::indexed, 3, 0);
  EXPECT_FALSE(ledger.fresh()) << "generation 0 is the table's own fill";
  EXPECT_FALSE(ledger.written_rows().empty());
  ledger.write(Pattern::indexed, 3, 9);
  EXPECT_TRUE(ledger.fresh());
  ledger.clear();
  EXPECT_FALSE(ledger.fresh());
  EXPECT_TRUE(ledger.written_rows().empty());
}

}  // namespace
}  // namespace stbench
