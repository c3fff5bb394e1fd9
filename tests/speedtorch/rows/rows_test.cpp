#include "speedtorch/rows/rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor random_rows(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randint(-100, 100, sizes, at::kLong).to(dtype);
}

/// The reference: one row at a time, by LibTorch's own copy of a row.
at::Tensor rows_one_by_one(const at::Tensor& table, const at::Tensor& index) {
  const auto flat = index.flatten().to(at::kLong);
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < flat.numel(); ++i) rows.push_back(table[flat[i].item<std::int64_t>()].clone());
  return at::stack(rows);
}

class RowsOfEveryType : public testing::TestWithParam<at::ScalarType> {};

TEST_P(RowsOfEveryType, GatherEqualsCopyingRowByRow) {
  for (const std::int64_t dim : {1, 3, 128, 129}) {
    const auto table = random_rows({50, dim}, GetParam());
    for (const auto index_type : {at::kLong, at::kInt}) {
      const auto index = at::randint(0, 50, {77}, index_type);
      auto out = at::empty({77, dim}, table.options());
      gather_rows(table, index, out);
      EXPECT_TRUE(at::equal(out, rows_one_by_one(table, index))) << dim;
    }
  }
}

TEST_P(RowsOfEveryType, ScatterWritesTheNamedRowsAndNoOther) {
  for (const std::int64_t dim : {1, 3, 128, 129}) {
    for (const auto index_type : {at::kLong, at::kInt}) {
      auto table = random_rows({50, dim}, GetParam());
      auto expected = table.clone();
      const auto index = at::randperm(50, at::kLong).slice(0, 0, 20).contiguous();
      const auto values = random_rows({20, dim}, GetParam());
      for (std::int64_t i = 0; i < 20; ++i) expected[index[i].item<std::int64_t>()].copy_(values[i]);
      scatter_rows(table, index.to(index_type), values);
      EXPECT_TRUE(at::equal(table, expected)) << dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RowsOfEveryType,
                         testing::Values(at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kChar,
                                         at::kInt, at::kLong, at::kBool),
                         [](const auto& test) { return std::string(c10::toString(test.param)); });

TEST(Rows, HigherRanksAndStridedTablesKeepTheirShape) {
  const auto cube = random_rows({20, 3, 5}, at::kFloat);
  const auto index = at::randint(0, 20, {4, 2}, at::kLong);
  auto out = at::empty({8, 3, 5}, at::kFloat);
  gather_rows(cube, index, out);
  EXPECT_TRUE(at::equal(out, rows_one_by_one(cube, index)));

  const auto wide = random_rows({20, 9}, at::kFloat);
  const auto slice = wide.slice(1, 1, 6);  // rows of 5, 9 apart, off by one element
  auto rows = at::empty({8, 5}, at::kFloat);
  gather_rows(slice, index, rows);
  EXPECT_TRUE(at::equal(rows, rows_one_by_one(slice, index)));
}

TEST(Rows, AVectorIsATableOfSingleElements) {
  const auto table = random_rows({30}, at::kDouble);
  const auto index = at::randint(0, 30, {100}, at::kLong);
  auto out = at::empty({100}, at::kDouble);
  gather_rows(table, index, out);
  EXPECT_TRUE(at::equal(out, table.index_select(0, index)));
}

TEST(Rows, AnEmptyIndexMovesNothing) {
  const auto table = random_rows({5, 4}, at::kFloat);
  auto out = at::empty({0, 4}, at::kFloat);
  EXPECT_NO_THROW(gather_rows(table, at::empty({0}, at::kLong), out));
}

TEST(Rows, WritesBumpTheVersionThatAutogradWatches) {
  auto out = at::zeros({2, 4});
  const auto before = out._version();
  gather_rows(at::ones({5, 4}), at::tensor({1, 2}, at::kLong), out);
  EXPECT_GT(out._version(), before);
  auto table = at::zeros({5, 4});
  const auto table_before = table._version();
  scatter_rows(table, at::tensor({1, 2}, at::kLong), out);
  EXPECT_GT(table._version(), table_before);
}

TEST(Rows, BadIndicesNamePositionValueAndBoundAndWriteNothing) {
  const auto table = at::ones({5, 4});
  for (const std::int64_t bad :
       {std::int64_t{5}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    auto out = at::full({3, 4}, 7.0);
    const auto index = at::tensor({0L, 1L, bad}, at::kLong);
    const auto refused = ThrowsMessage<IndexError>(
        "index " + std::to_string(bad) + " at position 2 names no row: the table's rows are 0 to 4");
    EXPECT_THAT([&] { gather_rows(table, index, out); }, refused);
    EXPECT_TRUE(at::equal(out, at::full({3, 4}, 7.0)));
    auto target = table.clone();
    EXPECT_THAT([&] { scatter_rows(target, index, out); }, refused);
    EXPECT_TRUE(at::equal(target, table));
  }
}

TEST(Rows, ShapesThatDoNotFitAreNamed) {
  const auto table = at::ones({5, 4});
  const auto index = at::tensor({0, 1}, at::kLong);
  auto narrow = at::empty({2, 3});
  EXPECT_THAT([&] { gather_rows(table, index, narrow); },
              ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr("[5, 4]"), HasSubstr("[2, 3]"))));
  auto few = at::empty({1, 4});
  EXPECT_THROW(gather_rows(table, index, few), ShapeError);
  auto other_type = at::empty({2, 4}, at::kDouble);
  EXPECT_THROW(gather_rows(table, index, other_type), ShapeError);
  auto out = at::empty({2, 4});
  EXPECT_THROW(gather_rows(table, index.to(at::kFloat), out), ShapeError);
  EXPECT_THROW(gather_rows(table.t(), index, out), ShapeError);
  EXPECT_THROW(gather_rows(at::tensor(1.0), index, out), ShapeError);
}

TEST(Rows, RefuseTensorsThatNoKernelReaches) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  auto table = at::empty({5, 4}, meta), rows = at::empty({2, 4}, meta);
  const auto index = at::empty({2}, meta.dtype(at::kLong));
  EXPECT_THAT([&] { gather_rows(table, index, rows); }, ThrowsMessage<PlacementError>(HasSubstr("meta")));
  EXPECT_THROW(scatter_rows(table, index, rows), PlacementError);
  EXPECT_THROW(gather_workspace_bytes(table, index, IndexOrder::unique), PlacementError);
  auto copy = at::empty({5, 4}, meta);
  EXPECT_THROW(stream_copy(table, copy), PlacementError);
}

TEST(Rows, RefuseToWriteOverWhatIsRead) {
  auto table = at::arange(40).view({10, 4});
  const auto before = table.clone();
  const auto index = at::tensor({9, 8}, at::kLong);
  auto inside = table.slice(0, 3, 5);
  EXPECT_THAT([&] { gather_rows(table, index, inside); }, ThrowsMessage<ShapeError>(HasSubstr("overlap")));
  EXPECT_THAT([&] { scatter_rows(table, index, inside); }, ThrowsMessage<ShapeError>(HasSubstr("overlap")));
  auto shifted = table.slice(0, 1, 10);
  EXPECT_THROW(stream_copy(table.slice(0, 0, 9), shifted), ShapeError);
  EXPECT_TRUE(at::equal(table, before));
}

/// Otherwise a write changes numbers that were checked before, and the next row goes anywhere in memory.
TEST(Rows, RefuseToWriteOverTheIndex) {
  auto table = at::arange(16).view({4, 4}).remainder(4);
  const auto before = table.clone();
  const auto values = at::full({2, 4}, std::int64_t{1} << 40, at::kLong);
  const auto inside = table[0].slice(0, 0, 2);
  EXPECT_THAT([&] { scatter_rows(table, inside, values); },
              ThrowsMessage<ShapeError>(HasSubstr("the index and the table overlap")));
  auto out = at::arange(8).view({2, 4});
  const auto of_out = out[0].slice(0, 1, 3);
  EXPECT_THAT([&] { gather_rows(table, of_out, out); },
              ThrowsMessage<ShapeError>(HasSubstr("the index and out overlap")));
  EXPECT_TRUE(at::equal(table, before));
  EXPECT_TRUE(at::equal(out, at::arange(8).view({2, 4})));
  gather_rows(table, inside, out);  // an index in memory that is only read
  EXPECT_TRUE(at::equal(out, rows_one_by_one(before, before[0].slice(0, 0, 2))));
  const auto beside = table.slice(1, 0, 1).slice(0, 0, 1).flatten();
  auto columns = table.slice(1, 1, 4);
  scatter_rows(columns, beside, values.slice(0, 0, 1).slice(1, 0, 3));  // the columns beside the index
  EXPECT_EQ(columns[0].min().item<std::int64_t>(), std::int64_t{1} << 40);
}

TEST(Rows, RefuseOutputRowsThatOverlap) {
  const auto table = at::arange(12, at::kFloat).view({4, 3});
  auto expanded = at::zeros({1, 3}).expand({2, 3});
  EXPECT_THAT(
      [&] {
        gather_rows(table, at::tensor({0, 3}), expanded);
      },
      ThrowsMessage<ShapeError>(HasSubstr("the rows of out (Float [2, 3]) overlap")));
  auto sliding = at::zeros({6}).as_strided({4, 3}, {1, 1});
  EXPECT_THROW(scatter_rows(sliding, at::tensor({0, 3}), at::ones({2, 3})), ShapeError);
  auto out = at::zeros({2, 3});
  gather_rows(at::ones({1, 3}).expand({4, 3}), at::tensor({0, 3}), out);  // valid for reading
  EXPECT_EQ(out.sum().item<float>(), 6);
}

/// Otherwise a gradient would flow to overwritten values.
TEST(Rows, RefuseAnOutThatAutogradTracks) {
  const auto table = at::ones({4, 3});
  const auto index = at::tensor({0, 3});
  auto leaf = at::zeros({2, 3}).requires_grad_();
  auto result = leaf * 2;
  for (auto* const out : {&leaf, &result}) {
    EXPECT_THAT([&] { gather_rows(table, index, *out); },
                ThrowsMessage<AutogradError>(HasSubstr("out requires a gradient")));
    EXPECT_EQ(out->sum().item<float>(), 0);
    const at::NoGradGuard unrecorded;
    gather_rows(table, index, *out);
    EXPECT_EQ(out->sum().item<float>(), 6);
  }
}

TEST(Rows, ColumnsOfOneTensorDoNotOverlap) {
  auto wide = at::arange(80).view({10, 8});
  const auto table = wide.slice(1, 0, 4);
  const auto index = at::tensor({9, 0, 5}, at::kLong);
  auto out = wide.slice(1, 4, 8).slice(0, 2, 5);
  const auto expected = table.index_select(0, index);
  gather_rows(table, index, out);
  EXPECT_TRUE(at::equal(out, expected));
}

TEST(Rows, StreamCopyCopiesEveryByte) {
  for (const std::int64_t bytes : {0, 1, 63, 64, 65, 4096, 1 << 20, (1 << 25) + 3}) {
    const auto from = at::randint(0, 255, {bytes}, at::kByte);
    auto to = at::zeros({bytes}, at::kByte);
    stream_copy(from, to);
    EXPECT_TRUE(at::equal(from, to)) << bytes;
  }
  auto small = at::empty({3}, at::kByte);
  EXPECT_THROW(stream_copy(at::empty({4}, at::kByte), small), ShapeError);
}

TEST(Rows, SeveralThreadsMayGatherFromOneTable) {
  const auto table = random_rows({1000, 16}, at::kFloat);
  std::vector<std::thread> threads;
  std::vector<int> equal(8);
  for (std::size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto index = at::randint(0, 1000, {500}, at::kLong);
      auto out = at::empty({500, 16});
      gather_rows(table, index, out);
      equal[t] = at::equal(out, table.index_select(0, index)) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(equal, testing::Each(1));
}

}  // namespace
}  // namespace speedtorch
