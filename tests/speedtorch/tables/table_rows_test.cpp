#include "speedtorch/tables/table_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "speedtorch/cuda.h"
#include "speedtorch/error.h"
#include "speedtorch/optim/sparse_rows.h"
#include "speedtorch/tables/prefetch.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/host_placements.h"
#include "tests/speedtorch/infinity/stale_graph.h"
#include "tests/speedtorch/process_memory.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Needs no machine with a GPU to see which route rows would take.
TEST(Route, IsTheShortestForEachPairOfPlacementAndModel) {
  const at::Device cpu("cpu"), first("cuda:0"), second("cuda:1");
  for (const auto placement : host_placements) {
    EXPECT_EQ(route_of(placement, cpu, cpu), Route::host);
    EXPECT_EQ(route_of(placement, cpu, first), Route::staged);
  }
  EXPECT_EQ(route_of(Placement::pinned, first, cpu), Route::host);
  EXPECT_EQ(route_of(Placement::pinned, first, first), Route::in_place);
  EXPECT_EQ(route_of(Placement::pinned, first, second), Route::fetched);
  EXPECT_EQ(route_of(Placement::device, first, first), Route::in_place);
  EXPECT_EQ(route_of(Placement::device, first, cpu), Route::fetched);
  EXPECT_EQ(route_of(Placement::device, second, first), Route::fetched);
  EXPECT_EQ(to_string(Route::staged), "staged");
}

class TableRowsIn : public testing::TestWithParam<Placement> {
 protected:
  [[nodiscard]] static Table random_table(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
    return Table::from_array(at::randint(-100, 100, sizes, at::kLong).to(dtype), {.placement = GetParam()});
  }
};

TEST_P(TableRowsIn, GatherGivesEachRowInTheIndexsShape) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kLong}) {
    const auto table = random_table({50, 3, 5}, dtype);
    const auto all = table.tensor();
    const auto index = at::randint(0, 50, {4, 6}, at::kInt);
    const auto expected = all.index({index.to(at::kLong)});
    EXPECT_TRUE(at::equal(gather_rows(table, index, at::kCPU), expected));
    auto shaped = at::empty({4, 6, 3, 5}, dtype), flat = at::empty({24, 3, 5}, dtype);
    gather_rows(table, index, shaped);
    gather_rows(table, index, flat);
    EXPECT_TRUE(at::equal(shaped, expected));
    EXPECT_TRUE(at::equal(flat, expected.view({24, 3, 5})));
    EXPECT_TRUE(at::equal(gather_rows(table, RowRange{10, 50, 7}, at::kCPU), all.slice(0, 10, 50, 7)));
  }
}

TEST_P(TableRowsIn, ScatterTreatsDuplicatesAsRequested) {
  const auto index = at::tensor({7, 3, 7}, at::kLong);
  const auto values = at::randn({3, 5});
  for (const auto duplicates : {Duplicates::last, Duplicates::accumulate}) {
    const auto table = random_table({20, 5});
    auto expected = table.tensor().clone();
    const bool adds = duplicates == Duplicates::accumulate;
    for (std::int64_t i = 0; i < 3; ++i) {
      auto row = expected[index[i].item<std::int64_t>()];
      row.copy_(adds ? row + values[i] : values[i]);
    }
    scatter_rows(table, index, values, duplicates);
    EXPECT_TRUE(at::equal(table.tensor(), expected));
  }
  const auto table = random_table({20, 5});
  const auto before = table.tensor().clone();
  EXPECT_THROW(scatter_rows(table, index, values, Duplicates::reject), DuplicateError);
  EXPECT_TRUE(at::equal(table.tensor(), before));
}

TEST_P(TableRowsIn, AGraphNoticesEveryWriteIntoItsTable) {
  auto table = random_table({20, 5});
  const auto index = at::tensor({7, 3, 7}, at::kLong), once = at::tensor({7, 3}, at::kLong);
  const auto values = at::randn({3, 5});
  EXPECT_FALSE(test::write_is_noticed(table.tensor(), [&] { (void)gather_rows(table, index, at::kCPU); }));
  for (const auto& seen : {table.tensor(), table.host_tensor()}) {
    const auto notices = [&](auto write) { return test::write_is_noticed(seen, write); };
    EXPECT_TRUE(notices([&] { scatter_rows(table, index, values, Duplicates::last); }));
    EXPECT_TRUE(notices([&] { scatter_rows(table, index, values, Duplicates::accumulate); }));
    EXPECT_TRUE(notices([&] { scatter_rows(table, once, values.narrow(0, 0, 2), Duplicates::reject); }));
    EXPECT_TRUE(notices([&] { scatter_rows(table, once, values.narrow(0, 0, 2), Duplicates::none); }));
    for (const Fill& with : {Fill(Zeros{}), Fill(Uniform{0, 1}), Fill(Normal{0, 1})})
      EXPECT_TRUE(notices([&] { table.fill(with); }));
    EXPECT_TRUE(notices([&] {
      const ByPieces fails = [](at::Tensor& rows, std::int64_t) {
        rows.zero_();
        throw std::runtime_error("halfway");
      };
      EXPECT_THROW(table.fill(fails), std::runtime_error);
    }));
    EXPECT_TRUE(notices([&] { table.set(at::ones({20, 5})); }));
    EXPECT_TRUE(notices([&] { table.tensor().narrow(0, 3, 2).zero_(); }));
    EXPECT_TRUE(notices([&] { SparseRows(table.host_tensor(), SGDOptions{}).step(index, values); }));
    EXPECT_TRUE(notices([&] {
      const c10::InferenceMode inference;
      scatter_rows(table, index, values, Duplicates::last);
    }));
  }
}

/// All views share one counter: none of the writes of eight threads is lost.
TEST_P(TableRowsIn, ViewsOfManyThreadsCountEveryWrite) {
  const auto table = random_table({64, 5});
  const auto before = table.tensor()._version();
  std::vector<std::thread> threads;
  for (std::int64_t own = 0; own < 8; ++own) {
    threads.emplace_back([&table, own] {
      const auto index = at::arange(own * 8, own * 8 + 8, at::kLong);
      for (int k = 0; k < 50; ++k) scatter_rows(table, index, at::ones({8, 5}), Duplicates::none);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(table.host_tensor()._version(), before + 8 * 50);
}

TEST_P(TableRowsIn, AnOutThatAutogradTracksIsLeftAlone) {
  const auto table = random_table({20, 5});
  const auto index = at::tensor({7, 3}, at::kLong);
  auto leaf = at::zeros({2, 5}).requires_grad_();
  auto recorded = leaf * 2;
  auto shaped = at::zeros({2, 1, 5}).requires_grad_();
  for (auto* const out : {&leaf, &recorded}) {
    EXPECT_THAT([&] { gather_rows(table, index, *out); },
                ThrowsMessage<AutogradError>(HasSubstr("out requires a gradient")));
    EXPECT_TRUE(at::equal(*out, at::zeros({2, 5})));
  }
  EXPECT_THROW(gather_rows(table, index.view({2, 1}), shaped), AutogradError);
  const at::NoGradGuard unrecorded;
  gather_rows(table, index, leaf);
  EXPECT_TRUE(at::equal(leaf, table.tensor().index_select(0, index)));
}

TEST_P(TableRowsIn, ShapesThatDoNotFitAreNamed) {
  const auto table = random_table({20, 5});
  const auto index = at::tensor({7, 3}, at::kLong);
  auto narrow = at::empty({2, 4});
  const auto names_both = ThrowsMessage<ShapeError>(AllOf(HasSubstr("[20, 5]"), HasSubstr("[2, 4]")));
  EXPECT_THAT([&] { gather_rows(table, index, narrow); }, names_both);
  EXPECT_THAT([&] { scatter_rows(table, index, narrow, Duplicates::last); }, names_both);
  auto doubles = at::empty({2, 5}, at::kDouble);
  EXPECT_THAT([&] { gather_rows(table, index, doubles); },
              ThrowsMessage<ShapeError>(HasSubstr("Double [2, 5]")));
  EXPECT_THROW(gather_rows(table, at::tensor({20}, at::kLong), at::kCPU), IndexError);
}

TEST_P(TableRowsIn, RowsOfNoColumnsAreMovedAndChecked) {
  const auto table = Table::empty({5, 0}, at::kFloat, {.placement = GetParam()});
  const auto none = at::empty({0}, at::kLong), two = at::tensor({4, 1}, at::kLong),
             bad = at::tensor({1, 5}, at::kLong);
  Prefetcher prefetcher(table);
  for (const auto& index : {none, two}) {
    const auto rows = gather_rows(table, index, at::kCPU);
    EXPECT_EQ(rows.sizes(), (at::IntArrayRef{index.numel(), 0}));
    for (const auto duplicates :
         {Duplicates::none, Duplicates::last, Duplicates::accumulate, Duplicates::reject})
      EXPECT_NO_THROW(scatter_rows(table, index, rows, duplicates));
    prefetcher.submit(index);
    EXPECT_EQ(prefetcher.take().sizes(), rows.sizes());
  }
  EXPECT_THROW(gather_rows(table, bad, at::kCPU), IndexError);
  EXPECT_THROW(scatter_rows(table, bad, at::empty({2, 0}), Duplicates::last), IndexError);
}

TEST_P(TableRowsIn, ThePiecesAreTheTable) {
  const auto table = random_table({101, 3});
  for (const std::int64_t bytes : {1, 12, 100, 1 << 20}) {
    std::vector<at::Tensor> pieces;
    std::int64_t next = 0;
    each_piece(table, bytes, [&](const at::Tensor& rows, std::int64_t first) {
      EXPECT_EQ(first, next);
      EXPECT_LE(rows.numel() * 4, std::max<std::int64_t>(bytes, 12));
      next += rows.size(0);
      pieces.push_back(rows.clone());
    });
    EXPECT_TRUE(at::equal(at::cat(pieces), table.tensor()));
  }
  EXPECT_THROW(each_piece(table, 0, [](const at::Tensor&, std::int64_t) {}), ShapeError);
}

TEST_P(TableRowsIn, AHostCopyIsIndependent) {
  const auto table = random_table({100, 3});
  const auto before = table.tensor().clone();
  const auto copy = host_copy(table);
  table.tensor().zero_();
  EXPECT_TRUE(at::equal(copy, before));
  EXPECT_FALSE(at::equal(copy, table.tensor()));
}

INSTANTIATE_TEST_SUITE_P(Placements, TableRowsIn,
                         testing::Values(Placement::libtorch, Placement::pageable, Placement::hugepage,
                                         Placement::mapped),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(TableRows, PiecesTakeNoMemoryBesideTheTable) {
  if (!test::memory_is_the_programs()) GTEST_SKIP() << "AddressSanitizer keeps freed memory";
  const auto table = Table::filled({100'000, 128}, at::kFloat, Uniform{});  // 51 MB
  const auto sum_of_pieces = [&] {
    double sum = 0;
    each_piece(table, 1 << 20,
               [&](const at::Tensor& rows, std::int64_t) { sum += rows.sum(at::kDouble).item<double>(); });
    return sum;
  };
  const auto first =
      sum_of_pieces();  // the first call loads pages of LibTorch's code, threads and their arenas
  EXPECT_GT(first, 0);
  test::forget_peak();
  const auto before = test::peak_bytes();
  EXPECT_EQ(sum_of_pieces(), first);
  EXPECT_LT(test::peak_bytes() - before, 16 << 20);
}

TEST(TableRows, AReadOnlyFileIsNotWritten) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "rows.npy").string();
  (void)Table::filled({10, 2}, at::kFloat, Zeros{}, {.placement = Placement::mapped, .file = path});
  const auto table = Table::from_file(path, {.placement = Placement::mapped});
  EXPECT_THAT(
      [&] {
        scatter_rows(table, at::tensor({3}, at::kLong), at::ones({1, 2}), Duplicates::last);
      },
      ThrowsMessage<FileError>(HasSubstr("'rows.npy' is open read_only")));
  EXPECT_EQ(gather_rows(table, RowRange{0, 10}, at::kCPU).sum().item<double>(), 0);
}

TEST(TableRows, RefuseAnUnreachableModel) {
  const auto table = Table::filled({10, 2}, at::kFloat, Zeros{});
  const auto index = at::tensor({3}, at::kLong);
  auto out = at::empty({1, 2}, at::TensorOptions().device(at::kMeta));
  EXPECT_THAT([&] { gather_rows(table, index, out); }, ThrowsMessage<PlacementError>(HasSubstr("meta")));
  EXPECT_THROW(scatter_rows(table, index, out, Duplicates::last), PlacementError);
  if (cuda_status().available) return;  // the rest is for machines without one
  EXPECT_THAT([&] { gather_rows(table, index, at::Device("cuda:0")); },
              ThrowsMessage<PlacementError>(HasSubstr("a model on cuda:0")));
  EXPECT_THROW(Prefetcher(table, at::Device("cuda:0")), PlacementError);
}

}  // namespace
}  // namespace speedtorch
