// The distinct rows against a std::map of positions.

#include "speedtorch/kernels/rows/duplicate_rows.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "speedtorch/kernels/error.h"
#include "tests/speedtorch/kernels/counted_allocations.h"
#include "tests/speedtorch/kernels/thread_pool.h"

namespace speedtorch::kernels {
namespace {

using Found = std::map<std::int64_t, std::vector<std::int64_t>>;

Found listed(const DuplicateRows& duplicates) {
  Found found;
  std::int64_t last = -1;
  for (std::int64_t k = 0; k < duplicates.unique(); ++k) {
    const auto at = static_cast<std::size_t>(k);
    const auto row = duplicates.rows()[at];
    EXPECT_GT(row, last);
    last = row;
    for (auto i = duplicates.begins()[at]; i < duplicates.begins()[at + 1]; ++i)
      found[row].push_back(duplicates.positions()[static_cast<std::size_t>(i)]);
  }
  return found;
}

template <class Index>
Found by_map(const std::vector<Index>& index) {
  Found found;
  for (std::size_t i = 0; i < index.size(); ++i) found[index[i]].push_back(static_cast<std::int64_t>(i));
  return found;
}

template <class Index>
std::vector<Index> drawn(std::int64_t count, std::int64_t rows, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> any(0, rows - 1);
  std::vector<Index> index(static_cast<std::size_t>(count));
  for (auto& one : index) one = static_cast<Index>(any(random) % (1 + any(random)));  // small rows often
  return index;
}

template <class Index>
class DuplicateRowsOf : public ::testing::Test {};
using Indices = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(DuplicateRowsOf, Indices);

TYPED_TEST(DuplicateRowsOf, AreAMapsWhateverTheThreads) {
  DuplicateRows duplicates;  // one for all: what is left of one index must not show in the next
  for (const std::int64_t rows : {1, 2, 3000, 2'000'000}) {
    for (const std::int64_t count : {70'000, 1, 0, 1024, 1025, 20'000}) {
      const auto index = drawn<TypeParam>(count, rows, 3);
      const auto wanted = by_map(index);
      for (std::int64_t threads = 1; threads <= 8; threads += 3) {
        duplicates.find(index.data(), count, rows, ThreadPool(threads));
        EXPECT_EQ(static_cast<std::int64_t>(duplicates.positions().size()), count);
        ASSERT_EQ(listed(duplicates), wanted) << count << " of " << rows << ", " << threads << " threads";
      }
    }
  }
}

// 62 bits of rows and 16 of positions do not go into a word; 48 and 16 just do, 49 and 16 just do not.
TEST(DuplicateRows, FindsDuplicatesInTablesBeyondMemory) {
  for (const int row_bits : {62, 49, 48}) {
    const std::int64_t rows = std::int64_t{1} << row_bits;
    for (const std::int64_t count : {1000, 40'000}) {
      auto index = drawn<std::int64_t>(count, rows, 9);
      for (std::size_t i = 7; i < index.size(); i += 7) index[i] = index[i / 2];
      index[1] = rows - 1;
      DuplicateRows duplicates;
      duplicates.find(index.data(), count, rows, ThreadPool(3));
      EXPECT_EQ(listed(duplicates), by_map(index)) << row_bits;
    }
  }
}

TEST(DuplicateRows, ABadIndexLeavesWhatWasFound) {
  DuplicateRows duplicates;
  const std::vector<std::int64_t> good{4, 2, 4};
  duplicates.find(good.data(), 3, 5, serial_for);
  const std::vector<std::int64_t> bad{1, 5, -1};
  try {
    duplicates.find(bad.data(), 3, 5, serial_for);
    FAIL();
  } catch (const IndexError& error) {
    EXPECT_EQ(error.position(), 1);
    EXPECT_EQ(error.index(), 5);
  }
  EXPECT_EQ(listed(duplicates), by_map(good));
}

TEST(DuplicateRows, AllocateNothingOnceWarm) {
  DuplicateRows duplicates;
  const auto first = drawn<std::int64_t>(50'000, 90'000, 1);
  const auto second = drawn<std::int64_t>(50'000, 90'000, 2);
  duplicates.find(first.data(), 50'000, 90'000, serial_for);
  const auto before = allocations();
  duplicates.find(second.data(), 40'000, 90'000, serial_for);
  duplicates.find(second.data(), 50'000, 90'000, serial_for);
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace speedtorch::kernels
