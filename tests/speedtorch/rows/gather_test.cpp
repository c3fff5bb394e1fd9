#include "speedtorch/rows/gather.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/rows/duplicates.h"
#include "speedtorch/rows/rows.h"
#include "speedtorch/system/pages.h"
#include "speedtorch/tables/table_rows.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Gather, HasTheShapeOfTheIndexBeforeTheRows) {
  const auto table = at::arange(60).view({5, 3, 4});
  for (const auto type : {at::kInt, at::kLong}) {
    const auto index = at::tensor({4, 0, 0, 2, 1, 3}, type);
    const auto long_index = index.to(at::kLong);
    EXPECT_TRUE(at::equal(gather_rows(table, index), table.index_select(0, long_index)));
    const auto square = gather_rows(table, index.view({2, 3}));
    EXPECT_EQ(square.sizes(), at::IntArrayRef({2, 3, 3, 4}));
    EXPECT_TRUE(at::equal(square, table.index({long_index.view({2, 3})})));
    EXPECT_EQ(gather_rows(table, index[0]).sizes(), at::IntArrayRef({3, 4}));  // no dimension: a row
    EXPECT_TRUE(at::equal(gather_rows(table, index.view({2, 3}).t()), square.transpose(0, 1)));
  }
}

TEST(Gather, ALargeNewTensorHasHugePages) {
  std::string mode;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), mode);
  if (mode.empty() || mode.find("[never]") != std::string::npos)
    GTEST_SKIP() << "transparent huge pages are off: " << mode;
  const auto table = at::ones({16, 512});
  const auto index = at::zeros({64 << 10}, at::kLong);  // 128 MiB, which malloc never keeps
  for (const auto& out :
       {gather_rows(table, index), gather_rows(Table::from_array(table), index, at::kCPU)}) {
    const auto pages = pages_got(static_cast<const std::byte*>(out.const_data_ptr()),
                                 static_cast<std::int64_t>(out.nbytes()));
    EXPECT_THAT(pages, testing::StartsWith("2MiB"));
    EXPECT_TRUE(at::equal(out, at::ones({64 << 10, 512})));
  }
}

TEST(Gather, OutMayHaveEitherShape) {
  const auto table = at::arange(20).view({5, 4});
  const auto index = at::tensor({4, 0, 0, 2, 1, 3}, at::kLong).view({2, 3});
  auto shaped = at::empty({2, 3, 4}, at::kLong), flat = at::empty({6, 4}, at::kLong);
  const auto before = shaped._version();
  gather_rows(table, index, shaped);
  gather_rows(table, index, flat);
  EXPECT_TRUE(at::equal(shaped, table.index({index})));
  EXPECT_TRUE(at::equal(flat, shaped.view({6, 4})));
  EXPECT_GT(shaped._version(), before);
  auto turned = at::empty({3, 2, 4}, at::kLong);
  EXPECT_THAT([&] { gather_rows(table, index, turned); },
              ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr("[5, 4]"), HasSubstr("[3, 2, 4]"))));
  auto target = at::zeros({5, 4}, at::kLong);
  scatter_rows(target, index.slice(0, 0, 1).contiguous(), shaped.slice(0, 0, 1).contiguous(),
               Duplicates::last);
  EXPECT_TRUE(at::equal(target.index({index[0]}), shaped[0]));
}

TEST(Gather, RangesAreTheirRows) {
  const auto table = at::arange(40).view({10, 4});
  EXPECT_TRUE(at::equal(gather_rows(table, RowRange{2, 7}), table.slice(0, 2, 7)));
  EXPECT_TRUE(at::equal(gather_rows(table, RowRange{1, 10, 3}), table.slice(0, 1, 10, 3)));
  EXPECT_TRUE(at::equal(gather_rows(table, RowRange{0, 10}), table));
  EXPECT_EQ(gather_rows(table, RowRange{10, 10}).size(0), 0);
  EXPECT_EQ(gather_rows(table, RowRange{3, 3}).sizes(), at::IntArrayRef({0, 4}));
  EXPECT_THAT(
      [&] {
        gather_rows(table, RowRange{8, 11});
      },
      ThrowsMessage<IndexError>(HasSubstr("index 10 at")));
  EXPECT_THAT(
      [&] {
        gather_rows(table, RowRange{4, 13, 4});
      },
      ThrowsMessage<IndexError>(HasSubstr("index 12 at position 2")));
  EXPECT_THROW(gather_rows(table, RowRange{-1, 3}), IndexError);
  EXPECT_THROW(gather_rows(table, RowRange{0, 3, 0}), ShapeError);
}

// As a loop over the range finds them.
TEST(RowIndex, ARangeBeyondTheTableNamesItsFirstBadRow) {
  for (const std::int64_t rows : {0, 1, 5, 10}) {
    for (std::int64_t begin = 0; begin <= rows; ++begin) {
      for (std::int64_t end = begin; end <= rows + 9; ++end) {
        for (const std::int64_t step : {1, 2, 3, 7}) {
          std::vector<std::int64_t> named;
          for (auto row = begin; row < end; row += step) named.push_back(row);
          const auto bad = std::ranges::find_if(named, [rows](auto row) { return row >= rows; });
          const RowIndex index(RowRange{begin, end, step});
          try {
            const auto numbers = index.numbers(rows, at::kCPU);
            EXPECT_EQ(bad, named.end()) << begin << ' ' << end << ' ' << step << " of " << rows;
            EXPECT_TRUE(at::equal(numbers, at::tensor(named, at::kLong)));
          } catch (const IndexError& error) {
            ASSERT_NE(bad, named.end()) << error.what();
            EXPECT_EQ(error.position(), bad - named.begin()) << error.what();
            EXPECT_EQ(error.index(), *bad) << error.what();
          }
        }
      }
    }
  }
}

TEST(Gather, RefusesInvalidIndicesAndTables) {
  const auto table = at::ones({5, 4});
  EXPECT_THAT([&] { gather_rows(table, at::ones({2})); }, ThrowsMessage<ShapeError>(HasSubstr("Float [2]")));
  EXPECT_THROW(gather_rows(table, at::Tensor()), ShapeError);
  EXPECT_THROW(gather_rows(at::scalar_tensor(1.0), at::tensor({0}, at::kLong)), ShapeError);
  EXPECT_THROW(gather_rows(table, at::tensor({5}, at::kLong)), IndexError);
}

/// The gradient of a table by LibTorch's index_select and by our gather, for the same gradient of the rows.
TEST(Gather, GradientIsThatOfIndexSelect) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto values = at::randn({50, 7}, dtype);
    for (const auto type : {at::kInt, at::kLong}) {
      const auto index = at::randint(0, 50, {10, 30}, type);                      // each row about six times
      const auto weights = at::randint(-8, 8, {10, 30, 7}, at::kLong).to(dtype);  // sums are exact
      auto ours = values.clone().requires_grad_(), theirs = values.clone().requires_grad_();
      (gather_rows(ours, index) * weights).sum().backward();
      (theirs.index_select(0, index.flatten().to(at::kLong)).view({10, 30, 7}) * weights).sum().backward();
      EXPECT_TRUE(at::equal(ours.grad(), theirs.grad()));
    }
  }
}

TEST(Gather, GradientIsTheSlopeOfTheFunction) {
  const auto index = at::tensor({1, 3, 1, 1}, at::kLong);
  const auto weights = at::randn({4, 2}, at::kDouble);
  const auto loss = [&](const at::Tensor& table) {
    return (gather_rows(table, index).pow(3) * weights).sum();
  };
  auto table = at::randn({4, 2}, at::kDouble).requires_grad_();
  loss(table).backward();
  for (std::int64_t e = 0; e < table.numel(); ++e) {
    auto above = table.detach().clone(), below = table.detach().clone();
    above.view({-1})[e] += 1e-6;
    below.view({-1})[e] -= 1e-6;
    const double slope = (loss(above) - loss(below)).item<double>() / 2e-6;
    EXPECT_NEAR(table.grad().view({-1})[e].item<double>(), slope, 1e-6) << e;
  }
}

TEST(Gather, CanBeDifferentiatedTwice) {
  const auto index = at::tensor({2, 0, 2}, at::kLong);
  const auto values = at::randn({3, 2}, at::kDouble);
  const auto second = [&](const auto& gather) {
    auto table = values.clone().requires_grad_();
    const auto first = torch::autograd::grad({gather(table).pow(4).sum()}, {table}, {}, {}, true);
    return torch::autograd::grad({first[0].pow(2).sum()}, {table})[0];
  };
  const auto ours = second([&](const at::Tensor& table) { return gather_rows(table, index); });
  const auto theirs = second([&](const at::Tensor& table) { return table.index_select(0, index); });
  EXPECT_TRUE(at::allclose(ours, theirs, 1e-12));
  EXPECT_TRUE(at::any(ours != 0).item<bool>());
}

TEST(Gather, IsRecordedOnlyWhereItShouldBe) {
  const auto index = at::tensor({0, 1}, at::kLong);
  auto table = at::ones({3, 2}).requires_grad_();
  EXPECT_TRUE(gather_rows(table, index).requires_grad());
  EXPECT_FALSE(gather_rows(table.detach(), index).requires_grad());
  {
    const at::NoGradGuard off;
    EXPECT_FALSE(gather_rows(table, index).requires_grad());
  }
  auto out = at::empty({2, 2});
  EXPECT_THAT([&] { gather_rows(table, index, out); },
              ThrowsMessage<AutogradError>(HasSubstr("not recorded")));
  EXPECT_THROW(scatter_rows(table, index, out), AutogradError);
  EXPECT_THROW(scatter_rows(table, index, out, Duplicates::last), AutogradError);
  const at::NoGradGuard off;
  gather_rows(table, index, out);
  scatter_rows(table, index, out);
  scatter_rows(table, index, out, Duplicates::last);
}

/// If a write replaced what backward needs, it must fail instead of returning a wrong gradient.
TEST(Gather, AnOverwrittenTensorIsSeenByBackward) {
  const auto index = at::tensor({0, 2}, at::kLong);
  for (const bool write : {false, true}) {
    for (int how = 0; how < 3; ++how) {
      auto x = at::ones({4, 2}).requires_grad_();
      auto saved = x * 2;
      const auto loss = (saved * saved).sum();  // keeps `saved`
      const at::NoGradGuard off;
      auto target = saved.detach();
      if (write && how == 0) scatter_rows(target, index, at::zeros({2, 2}));
      if (write && how == 1) scatter_rows(target, index, at::zeros({2, 2}), Duplicates::accumulate);
      if (write && how == 2) gather_rows(at::zeros({4, 2}), at::arange(4), target);
      if (write)
        EXPECT_THROW(loss.backward(), c10::Error) << how;
      else
        loss.backward();
    }
  }
  auto table = at::ones({4, 2}).requires_grad_();
  auto changed = index.clone();
  const auto loss = gather_rows(table, changed).sum();
  changed.fill_(1);
  EXPECT_THROW(loss.backward(), c10::Error);  // the index is kept too
}

TEST(Gather, EightThreadsAtOnceGetTheirOwnGradients) {
  std::vector<int> equal(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto index = at::arange(500).remainder(static_cast<std::int64_t>(t) + 1);
      auto table = at::ones({100, 4}, at::kDouble).requires_grad_();
      gather_rows(table, index).sum().backward();
      const auto counts = at::bincount(index, {}, 100).to(at::kDouble).unsqueeze(1).expand({100, 4});
      equal[t] = at::equal(table.grad(), counts) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(equal, testing::Each(1));
}

}  // namespace
}  // namespace speedtorch
