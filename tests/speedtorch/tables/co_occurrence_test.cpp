#include "speedtorch/tables/co_occurrence.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "speedtorch/error.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/host_placements.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The reference: a map, pair by pair.
at::Tensor counted(const at::Tensor& first, const at::Tensor& second, std::int64_t classes) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> pairs;
  const auto a = first.flatten().to(at::kLong), b = second.flatten().to(at::kLong);
  for (std::int64_t i = 0; i < a.numel(); ++i)
    ++pairs[{a.const_data_ptr<std::int64_t>()[i], b.const_data_ptr<std::int64_t>()[i]}];
  auto counts = at::zeros({classes, classes}, at::kLong);
  for (const auto& [pair, count] : pairs) counts[pair.first][pair.second] = count;
  return counts;
}

TEST(CoOccurrence, CountsAsAMapDoesOnAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  const auto first = at::randint(0, 30, {20, 3000}, at::kLong).pow(2).div(30, "floor");  // 0 very often
  const auto second = at::randint(0, 30, {20, 3000}, at::kInt);
  const auto expected = counted(first, second, 30);
  for (const int threads : {1, 2, 8}) {
    at::set_num_threads(threads);
    for (const auto placement : host_placements) {
      CoOccurrence counts(30, {.placement = placement});
      counts.add_pairs(first, second);
      EXPECT_TRUE(at::equal(counts.counts(), expected)) << threads;
      counts.add_pairs(first, second);
      EXPECT_TRUE(at::equal(counts.counts(), 2 * expected));
    }
  }
  at::set_num_threads(before);
}

TEST(CoOccurrence, CountsPast32Bits) {
  CoOccurrence counts(3);
  counts.counts().fill_(std::int64_t{1} << 32);
  counts.add_pairs(at::tensor({1}, at::kLong), at::tensor({2}, at::kLong));
  EXPECT_EQ(counts.counts()[1][2].item<std::int64_t>(), (std::int64_t{1} << 32) + 1);
  EXPECT_EQ(counts.table().dtype(), at::kLong);
}

TEST(CoOccurrence, GivesRowsAndAddsUpParts) {
  const auto first = at::randint(0, 10, {500}, at::kLong), second = at::randint(0, 10, {500}, at::kLong);
  CoOccurrence part(10), rest(10);
  part.add_pairs(first.slice(0, 0, 200), second.slice(0, 0, 200));
  rest.add_pairs(first.slice(0, 200), second.slice(0, 200));
  part.add(rest);
  const auto expected = counted(first, second, 10);
  EXPECT_TRUE(at::equal(part.rows(at::tensor({7, 7, 0}, at::kInt)), expected.index({at::tensor({7, 7, 0})})));
  EXPECT_TRUE(at::equal(part.rows(RowRange{0, 10}), expected));
  EXPECT_THAT([&] { part.add(CoOccurrence(11)); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("[10, 10]"), HasSubstr("[11, 11]"))));
}

TEST(CoOccurrence, SavesAndCountsOn) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "counts.npy").string();
  const auto first = at::randint(0, 10, {500}, at::kLong), second = at::randint(0, 10, {500}, at::kLong);
  CoOccurrence counts(10);
  counts.add_pairs(first, second);
  counts.save(path);
  auto again = CoOccurrence::from_file(path);
  EXPECT_TRUE(at::equal(again.counts(), counts.counts()));
  {
    auto in_place = CoOccurrence::from_file(path, {.placement = Placement::mapped});
    in_place.add_pairs(first, second);
  }
  EXPECT_TRUE(at::equal(CoOccurrence::from_file(path).counts(), 2 * counted(first, second, 10)));
  (void)Table::filled({3, 4}, at::kLong, Zeros{},
                      {.placement = Placement::mapped, .file = (folder.path() / "oblong.npy").string()});
  EXPECT_THAT([&] { (void)CoOccurrence::from_file((folder.path() / "oblong.npy").string()); },
              ThrowsMessage<ShapeError>(HasSubstr("Long [3, 4]")));
}

TEST(CoOccurrence, RefusesInvalidPairsAndCountsNothing) {
  CoOccurrence counts(10);
  const auto good = at::tensor({1, 2}, at::kLong);
  EXPECT_THAT(
      [&] {
        counts.add_pairs(good, at::tensor({1, 10}, at::kLong));
      },
      ThrowsMessage<IndexError>(HasSubstr("index 10 at position 1")));
  EXPECT_THROW(counts.add_pairs(at::tensor({-1, 1}, at::kLong), good), IndexError);
  EXPECT_THAT(
      [&] {
        counts.add_pairs(good, at::tensor({1, 2, 3}, at::kLong));
      },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("[2]"), HasSubstr("[3]"))));
  EXPECT_THROW(counts.add_pairs(at::ones({2}), good), ShapeError);
  EXPECT_THROW(counts.add_pairs(good, at::Tensor()), ShapeError);
  EXPECT_EQ(counts.counts().sum().item<std::int64_t>(), 0);
  EXPECT_THROW(CoOccurrence(10, {.placement = Placement::device}), PlacementError);
  EXPECT_THROW(CoOccurrence(100'000'000), LimitError);  // 80 PB
}

}  // namespace
}  // namespace speedtorch
