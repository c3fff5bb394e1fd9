#include "harness/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace stbench::harness {
namespace {

TEST(Random, IsSplitmix64) {
  // The first numbers of seed 1234567 in the reference implementation's published tests.
  Random random(1234567);
  EXPECT_EQ(random.word(), 6457827717110365317ULL);
  EXPECT_EQ(random.word(), 3203168211198807973ULL);
  EXPECT_EQ(random.word(), 9817491932198370423ULL);
}

TEST(Random, BelowIsEven) {
  constexpr int kBound = 7, kDraws = 70'000;
  std::vector<int> counts(kBound);
  Random random(3);
  for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(random.below(kBound)));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / kBound, 5 * 93);  // five standard deviations
}

TEST(Random, BelowHasNoBiasNearTheLargestBound) {
  // Under a remainder, the lower half of 3·2^61 would come twice as often as the upper third.
  constexpr std::int64_t kBound = 3LL << 61;
  Random random(5);
  int low = 0;
  constexpr int kDraws = 30'000;
  for (int i = 0; i < kDraws; ++i) low += random.below(kBound) < kBound / 3 ? 1 : 0;
  EXPECT_NEAR(low, kDraws / 3, 5 * 82);
}

TEST(Random, UnitIsBelowOne) {
  Random random(9);
  double least = 1, most = 0, sum = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.unit();
    least = std::min(least, x);
    most = std::max(most, x);
    sum += x;
  }
  EXPECT_GE(least, 0);
  EXPECT_LT(most, 1);
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * 0.2887 / 316);
}

TEST(KeyOf, DiffersWithEachPart) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t purpose = 0; purpose < 10; ++purpose) {
      for (std::uint64_t set = 0; set < 10; ++set) keys.insert(key_of(seed, purpose, set));
    }
  }
  EXPECT_EQ(keys.size(), 1000U);
}

class PermutationOf : public testing::TestWithParam<std::int64_t> {};

TEST_P(PermutationOf, HasEachNumberOnce) {
  for (const std::uint64_t key : {0ULL, 1ULL, 42ULL}) {
    const Permutation permutation(GetParam(), key);
    std::vector<bool> seen(static_cast<std::size_t>(GetParam()));
    for (std::int64_t i = 0; i < GetParam(); ++i) {
      const auto at = static_cast<std::size_t>(permutation(i));
      ASSERT_LT(at, seen.size());
      ASSERT_FALSE(seen[at]);
      seen[at] = true;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PermutationOf,
                         testing::Values(1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 255, 256, 257, 1023,
                                         1025, 65537, 100'003));

TEST(Permutation, PutsEachNumberEverywhere) {
  // Where number 0 of 16 goes, over many keys: each place as often as any other.
  constexpr int kKeys = 16'000;
  std::vector<int> counts(16);
  for (std::uint64_t key = 0; key < kKeys; ++key)
    ++counts[static_cast<std::size_t>(Permutation(16, mix(key))(0))];
  for (const int count : counts) EXPECT_NEAR(count, kKeys / 16, 5 * 31);
}

TEST(Permutation, ServesTheLargestTables) {
  const std::int64_t size = (std::int64_t{1} << 62) + 1;
  const Permutation permutation(size, 1);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t at = permutation(i);
    ASSERT_TRUE(at >= 0 && at < size);
    seen.insert(at);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

}  // namespace
}  // namespace stbench::harness
