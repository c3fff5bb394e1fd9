#include "speedtorch/rows/duplicates.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// The reference: one position after the other, by LibTorch's own operations on one row.
at::Tensor one_by_one(at::Tensor table, const at::Tensor& values, const at::Tensor& index,
                      Duplicates duplicates) {
  const auto flat = index.flatten().to(at::kLong);
  const auto half = table.scalar_type() == at::kHalf || table.scalar_type() == at::kBFloat16;
  auto sums = half ? table.to(at::kFloat) : table.clone();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    auto row = sums[flat[i].item<std::int64_t>()];
    const auto value = values[i].to(sums.scalar_type());
    if (duplicates == Duplicates::last)
      row.copy_(value);
    else if (table.scalar_type() == at::kBool)
      row.logical_or_(value);
    else
      row.add_(value);
  }
  return sums.to(table.scalar_type());
}

at::Tensor random_rows(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (at::isFloatingType(dtype) || at::isComplexType(dtype)) return at::randn(sizes, at::kFloat).to(dtype);
  return at::randint(0, dtype == at::kBool ? 2 : 100, sizes, at::kLong).to(dtype);
}

class DuplicatesOfEveryType : public testing::TestWithParam<at::ScalarType> {};

TEST_P(DuplicatesOfEveryType, LastAndAccumulateAreThePlainLoop) {
  for (const std::int64_t dim : {1, 3, 128, 300}) {
    for (const auto type : {at::kInt, at::kLong}) {
      const auto index = at::randint(0, 40, {150}, type);
      const auto start = random_rows({40, dim}, GetParam()), values = random_rows({150, dim}, GetParam());
      for (const auto duplicates : {Duplicates::last, Duplicates::accumulate}) {
        auto table = start.clone();
        scatter_rows(table, index, values, duplicates);
        EXPECT_TRUE(at::equal(table, one_by_one(start, values, index, duplicates))) << dim;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DuplicatesOfEveryType,
                         testing::Values(at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kChar,
                                         at::kByte, at::kShort, at::kInt, at::kLong, at::kBool,
                                         at::kComplexFloat),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST(Duplicates, AreAddedInTheOrderOfPositionsOnAnyNumberOfThreads) {
  const auto index = at::randint(0, 2000, {60'000}, at::kLong).pow(2).div(2000, "floor");  // row 0 very often
  const auto values = at::randn({60'000, 16});
  const int before = at::get_num_threads();
  at::Tensor first;
  for (const int threads : {1, 2, 8, 8, 8}) {
    at::set_num_threads(threads);
    auto table = at::zeros({2000, 16}), last = at::zeros({2000, 16});
    scatter_rows(table, index, values, Duplicates::accumulate);
    scatter_rows(last, index, values, Duplicates::last);
    const auto both = at::stack({table, last});
    if (first.defined())
      EXPECT_TRUE(at::equal(both, first)) << threads;
    else
      first = both;
  }
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(first[0], one_by_one(at::zeros({2000, 16}), values, index, Duplicates::accumulate)));
}

TEST(Duplicates, HalfPrecisionIsRoundedOnce) {
  auto table = at::full({1, 1}, 2048.0, at::kHalf);  // above, float16 has even numbers only
  scatter_rows(table, at::zeros({4}, at::kLong), at::ones({4, 1}, at::kHalf), Duplicates::accumulate);
  EXPECT_EQ(table.item<float>(), 2052.0F);
}

TEST(Duplicates, IntegersWrap) {
  auto table = at::full({1, 1}, std::numeric_limits<std::int64_t>::max(), at::kLong);
  scatter_rows(table, at::zeros({2}, at::kLong), at::ones({2, 1}, at::kLong), Duplicates::accumulate);
  EXPECT_EQ(table.item<std::int64_t>(), std::numeric_limits<std::int64_t>::min() + 1);
}

TEST(Duplicates, RejectReportsRowAndPositions) {
  auto table = at::zeros({10, 2});
  const auto index = at::tensor({7, 3, 9, 3, 7, 3}, at::kInt);
  try {
    scatter_rows(table, index, at::ones({6, 2}), Duplicates::reject);
    FAIL() << "nothing was thrown";
  } catch (const DuplicateError& error) {
    EXPECT_EQ(error.row(), 3);
    EXPECT_EQ(error.first(), 1);
    EXPECT_EQ(error.second(), 3);
    EXPECT_THAT(error.what(), HasSubstr("row 3 is named at positions 1 and 3"));
  }
  EXPECT_TRUE(at::equal(table, at::zeros({10, 2})));
  EXPECT_THROW(require_distinct(index, 10), DuplicateError);
  try {
    require_distinct(at::tensor({2, 5, 5, 2}, at::kLong), 10);
    FAIL() << "nothing was thrown";
  } catch (const DuplicateError& error) {
    EXPECT_EQ(error.row(), 5);  // not the smallest row: the one whose second position comes first
    EXPECT_EQ(error.second(), 2);
  }
  try {
    require_distinct(at::tensor({0, 0, 1, 1}, at::kLong), 10);
    FAIL() << "nothing was thrown";
  } catch (const DuplicateError& error) {
    EXPECT_EQ(error.row(), 0);
    EXPECT_EQ(error.second(), 1);
  }
  const auto distinct = at::tensor({7, 3, 9}, at::kInt);
  require_distinct(distinct, 10);
  scatter_rows(table, distinct, at::ones({3, 2}), Duplicates::reject);
  EXPECT_EQ(table.sum().item<double>(), 6);
}

TEST(Duplicates, BadIndicesAndShapesWriteNothing) {
  for (const auto duplicates : {Duplicates::reject, Duplicates::last, Duplicates::accumulate}) {
    auto table = at::zeros({10, 2});
    EXPECT_THAT(
        [&] {
          scatter_rows(table, at::tensor({1, 10, 1}, at::kLong), at::ones({3, 2}), duplicates);
        },
        ThrowsMessage<IndexError>(HasSubstr("index 10 at position 1")));
    EXPECT_THROW(scatter_rows(table, at::tensor({1, -1, 1}, at::kLong), at::ones({3, 2}), duplicates),
                 IndexError);
    EXPECT_THAT(
        [&] {
          scatter_rows(table, at::tensor({1, 2, 3}, at::kLong), at::ones({3, 3}), duplicates);
        },
        ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr("[10, 2]"), HasSubstr("[3, 3]"))));
    auto on_each_other = at::zeros({1, 2}).expand({10, 2});
    EXPECT_THAT(
        [&] {
          scatter_rows(on_each_other, at::tensor({1}, at::kLong), at::ones({1, 2}), duplicates);
        },
        ThrowsMessage<ShapeError>(HasSubstr("the rows of the table (Float [10, 2]) overlap")));
    auto inside = table.slice(0, 0, 3);
    EXPECT_THROW(scatter_rows(table, at::tensor({1, 2, 1}, at::kLong), inside, duplicates), ShapeError);
    const auto index_inside = table.view(at::kInt)[0];
    EXPECT_THAT(
        [&] {
          scatter_rows(table, index_inside, at::ones({2, 2}), duplicates);
        },
        ThrowsMessage<ShapeError>(HasSubstr("the index and the table overlap")));
    EXPECT_TRUE(at::equal(table, at::zeros({10, 2})));
    scatter_rows(table, at::empty({0}, at::kLong), at::ones({0, 2}), duplicates);
    EXPECT_TRUE(at::equal(table, at::zeros({10, 2})));
  }
}

TEST(Duplicates, RefuseElementsThatCannotBeAdded) {
  const auto index = at::tensor({1, 1}, at::kLong);
  for (const auto dtype : {at::kComplexHalf, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    auto table = at::empty({3, 2}, dtype);
    const auto values = at::empty({2, 2}, dtype);
    EXPECT_THAT([&] { scatter_rows(table, index, values, Duplicates::accumulate); },
                ThrowsMessage<ShapeError>(HasSubstr("cannot be added")))
        << dtype;
    EXPECT_NO_THROW(scatter_rows(table, index, values, Duplicates::last)) << dtype;
  }
}

TEST(Duplicates, AcceptStridedTablesAndValuesOfTheIndexsShape) {
  auto wide = at::zeros({10, 9});
  auto table = wide.slice(1, 2, 6);
  const auto index = at::tensor({1, 2, 1, 1}, at::kLong).view({2, 2});
  const auto values = at::randn({2, 2, 4});
  scatter_rows(table, index, values, Duplicates::accumulate);
  auto expected = at::zeros({10, 4});
  expected.index_add_(0, index.flatten(), values.view({4, 4}));
  EXPECT_TRUE(at::allclose(table, expected));
  EXPECT_EQ(wide.slice(1, 0, 2).abs().sum().item<double>() + wide.slice(1, 6, 9).abs().sum().item<double>(),
            0);
  scatter_rows(table, index, values, Duplicates::last);
  EXPECT_TRUE(at::equal(table[1], values[1][1]));
  scatter_rows(table, RowRange{4, 7}, at::ones({3, 4}), Duplicates::reject);
  EXPECT_EQ(table.slice(0, 4, 7).sum().item<double>(), 12);
}

TEST(Duplicates, DistinctRowsAreThoseOfUnique) {
  for (const auto type : {at::kInt, at::kLong}) {
    const auto index = at::randint(0, 500, {20, 40}, type);
    const auto [rows, positions] = distinct_rows(index, 500);
    const auto [expected, inverse, counts] = at::_unique2(index.to(at::kLong), true, true);
    EXPECT_TRUE(at::equal(rows, expected));
    EXPECT_TRUE(at::equal(positions, inverse));
    EXPECT_EQ(positions.sizes(), index.sizes());
  }
  EXPECT_EQ(distinct_rows(at::empty({0, 3}, at::kLong), 5).positions.sizes(), at::IntArrayRef({0, 3}));
  EXPECT_TRUE(at::equal(distinct_rows(RowRange{2, 5}, 5).rows, at::arange(2, 5)));
  EXPECT_THROW(distinct_rows(at::tensor({5}, at::kLong), 5), IndexError);
}

TEST(Duplicates, ACallerMayWriteTheRowsItself) {
  const auto index = at::randint(0, 40, {150}, at::kInt);
  const auto start = at::randn({40, 9}), values = at::randn({150, 9});
  for (const auto duplicates : {Duplicates::none, Duplicates::last, Duplicates::accumulate}) {
    auto table = start.clone();
    std::vector<int> writes(40);
    scatter_rows(table, index, values, duplicates, [&](std::int64_t row, const auto& set) {
      std::array<float, 9> value{};
      set(reinterpret_cast<std::byte*>(value.data()));
      std::copy(value.begin(), value.end(), table.mutable_data_ptr<float>() + row * 9);
      ++writes[static_cast<std::size_t>(row)];
    });
    const auto as = duplicates == Duplicates::none ? Duplicates::last : duplicates;
    EXPECT_TRUE(at::equal(table, one_by_one(start, values, index, as)));
    EXPECT_THAT(writes, testing::Each(testing::Le(1)));
  }
  auto table = start.clone();
  const auto refuse = [](std::int64_t, const auto&) { throw OptionError("not this row"); };
  EXPECT_THROW(scatter_rows(table, index, values, Duplicates::last, refuse), OptionError);
  EXPECT_THROW(scatter_rows(table, index, values, Duplicates::reject, refuse), DuplicateError);
}

TEST(Duplicates, EightThreadsMayScatterIntoTheirOwnTables) {
  const auto index = at::randint(0, 100, {3000}, at::kLong);
  const auto values = at::randn({3000, 8});
  const auto expected = one_by_one(at::zeros({100, 8}), values, index, Duplicates::accumulate);
  std::vector<int> equal(8);
  std::vector<std::thread> threads;
  for (auto& own : equal) {
    threads.emplace_back([&] {
      auto table = at::zeros({100, 8});
      scatter_rows(table, index, values, Duplicates::accumulate);
      own = at::equal(table, expected) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(equal, testing::Each(1));
}

TEST(Duplicates, AWriterThatThrowsLeavesACountedWrite) {
  auto table = at::zeros({3, 4});
  const auto version = table._version();
  EXPECT_THROW(scatter_rows(table, at::tensor({0, 1, 2}), at::ones({3, 4}), Duplicates::last,
                            [](std::int64_t row, auto) {
                              if (row == 1) throw SharingError("the lock is taken");
                            }),
               SharingError);
  EXPECT_GT(table._version(), version) << "row 0 was written";
}

}  // namespace
}  // namespace speedtorch
