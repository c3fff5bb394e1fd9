#include "speedtorch/tables/data_gadget.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "speedtorch/error.h"
#include "tests/harness/temporary_folder.h"
#include "tests/speedtorch/host_placements.h"
#include "tests/speedtorch/infinity/stale_graph.h"

namespace speedtorch {
namespace {

using stbench::test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A DataGadget without a table does not compile, so it has no uninitialised state.
static_assert(!std::is_default_constructible_v<DataGadget>);
static_assert(!std::is_copy_constructible_v<DataGadget> && std::is_move_constructible_v<DataGadget>);

TEST(DataGadget, GivesAndTakesRowsOfAnyRank) {
  for (const auto placement : host_placements) {
    for (const std::vector<std::int64_t>& sizes :
         {std::vector<std::int64_t>{40}, {40, 7}, {40, 3, 5}, {40, 2, 1, 3, 2}}) {
      const auto source = at::randn(sizes, at::kDouble);
      auto gadget = DataGadget::from_tensor(source, {.placement = placement});
      EXPECT_EQ(gadget.sizes(), at::IntArrayRef(sizes));
      const auto index = at::randint(0, 40, {3, 4}, at::kInt);
      EXPECT_TRUE(at::equal(gadget.get_data(index), source.index({index.to(at::kLong)})));
      auto out = at::empty_like(gadget.get_data(index));
      gadget.get_data(index, out);
      EXPECT_TRUE(at::equal(out, source.index({index.to(at::kLong)})));

      auto expected = source.clone();
      const auto rows = at::tensor({30, 2, 30}, at::kLong);
      const auto values = at::randn_like(gadget.get_data(rows));
      for (std::int64_t i = 0; i < 3; ++i) expected[rows[i].item<std::int64_t>()].copy_(values[i]);
      gadget.insert_data(values, rows);
      EXPECT_TRUE(at::equal(gadget.host_copy(), expected));
      EXPECT_THROW(gadget.insert_data(values, rows, Duplicates::reject), DuplicateError);
    }
  }
}

TEST(DataGadget, FromAnArrayEqualsIt) {
  std::vector<float> numbers(24);
  for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<float>(k);
  const auto gadget = DataGadget::from_array(std::span<const float>(numbers), {4, 3, 2});
  EXPECT_TRUE(at::equal(gadget.host_copy(), at::arange(24, at::kFloat).view({4, 3, 2})));
  numbers.assign(24, 0);  // it is a copy
  EXPECT_EQ(gadget.get_data(RowRange{3, 4}).sum().item<float>(), 18 + 19 + 20 + 21 + 22 + 23);
  const std::vector<std::int64_t> wide{1, 2, 3};
  EXPECT_EQ(DataGadget::from_array(std::span(wide), {3}).table().dtype(), at::kLong);
  EXPECT_THAT(
      [&] {
        (void)DataGadget::from_array(std::span(wide), {2, 2});
      },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("3 elements"), HasSubstr("[2, 2]"))));
}

TEST(DataGadget, SavesAndLoads) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "data.npy").string();
  const auto source = at::randn({30, 4});
  for (const auto placement : host_placements) {
    auto gadget = DataGadget::from_tensor(source, {.placement = placement});
    gadget.save(path);
    gadget.insert_data(at::zeros({30, 4}), RowRange{0, 30});
    gadget.load(path);
    EXPECT_TRUE(at::equal(gadget.host_copy(), source));
    EXPECT_TRUE(at::equal(DataGadget::from_file(path, {.placement = placement}).host_copy(), source));
  }
  auto other = DataGadget::from_tensor(at::zeros({30, 5}));
  EXPECT_THAT([&] { other.load(path); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("[30, 5]"), HasSubstr("[30, 4]"))));
  auto doubles = DataGadget::from_tensor(at::zeros({30, 4}, at::kDouble));
  EXPECT_THAT([&] { doubles.load(path); },
              ThrowsMessage<ShapeError>(AllOf(HasSubstr("Double"), HasSubstr("Float"))));
  EXPECT_THROW(doubles.load((folder.path() / "none.npy").string()), FileError);
  EXPECT_EQ(doubles.host_copy().abs().sum().item<double>(), 0);
}

TEST(DataGadget, LoadsRanksOneThreeAndFiveFromAFile) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "data.npy").string();
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{40}, {40, 3, 5}, {40, 2, 1, 3, 2}}) {
    const auto source = at::randn(sizes, at::kDouble);
    DataGadget::from_tensor(source).save(path);
    for (const auto placement : host_placements) {
      const auto gadget = DataGadget::from_file(path, {.placement = placement});
      EXPECT_EQ(gadget.sizes(), at::IntArrayRef(sizes));
      const auto index = at::tensor({39, 0, 7, 39}, at::kLong).view({2, 2});
      EXPECT_TRUE(at::equal(gadget.get_data(index), source.index({index}))) << to_string(placement);
      EXPECT_TRUE(at::equal(gadget.host_copy(), source)) << to_string(placement);
    }
  }
}

TEST(DataGadget, BadIndicesNamePositionValueAndBoundAndWriteNothing) {
  const auto index = at::tensor({0, 29, 30}, at::kInt);
  const auto refused = ThrowsMessage<IndexError>(
      HasSubstr("index 30 at position 2 names no row: the table's rows are 0 to 29"));
  for (const auto placement : host_placements) {
    auto gadget = DataGadget::from_tensor(at::zeros({30, 4}), {.placement = placement});
    auto out = at::full({3, 4}, 7.0);
    EXPECT_THAT([&] { (void)gadget.get_data(index); }, refused);
    EXPECT_THAT([&] { gadget.get_data(index, out); }, refused);
    EXPECT_TRUE((out == 7).all().item<bool>());
    for (const auto duplicates :
         {Duplicates::none, Duplicates::last, Duplicates::accumulate, Duplicates::reject})
      EXPECT_THAT([&] { gadget.insert_data(out, index, duplicates); }, refused);
    EXPECT_EQ(gadget.host_copy().abs().sum().item<float>(), 0);
    gadget.prefetch(index);
    EXPECT_THAT([&] { gadget.take(); }, refused);
  }
}

TEST(DataGadget, OverAFileWritesIntoIt) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "data.npy").string();
  DataGadget::from_tensor(at::zeros({30, 4})).save(path);
  {
    auto gadget = DataGadget::from_file(path, {.placement = Placement::mapped}, at::kCPU, Access::read_write);
    gadget.insert_data(at::ones({2, 4}), at::tensor({3, 5}, at::kLong));
    gadget.save(path);  // flushes the file itself
  }
  const auto again = DataGadget::from_file(path, {.placement = Placement::mapped});
  EXPECT_EQ(again.host_copy().sum().item<float>(), 8);
  auto read_only = DataGadget::from_file(path, {.placement = Placement::mapped});
  EXPECT_THROW(read_only.insert_data(at::ones({1, 4}), at::tensor({3}, at::kLong)), FileError);
  const auto other = (folder.path() / "other.npy").string();
  DataGadget::from_tensor(at::ones({30, 4})).save(other);
  EXPECT_THAT([&] { read_only.load(other); },
              ThrowsMessage<FileError>(HasSubstr("'data.npy' is open read_only")));
  EXPECT_EQ(read_only.host_copy().sum().item<float>(), 8);
}

TEST(DataGadget, PrefetchesAndSeesWhatIsInserted) {
  for (const auto placement : host_placements) {
    auto gadget = DataGadget::from_tensor(at::randn({100, 6}), {.placement = placement});
    EXPECT_THROW(gadget.take(), OrderError);
    gadget.prefetch(at::tensor({5, 6}, at::kLong));
    for (std::int64_t k = 0; k < 20; ++k) {
      gadget.prefetch(at::tensor({k, k + 50}, at::kLong));
      gadget.insert_data(at::full({1, 6}, k, at::kFloat), at::tensor({k}, at::kLong));
      const auto rows = gadget.take();
      const auto expected =
          k == 0 ? gadget.get_data(RowRange{5, 7}) : gadget.get_data(at::tensor({k - 1, k + 49}, at::kLong));
      EXPECT_TRUE(at::equal(rows, expected)) << k;
    }
    EXPECT_THROW(gadget.load("any.npy"), OrderError);  // a batch is in flight
    auto moved = std::move(gadget);
    EXPECT_EQ(moved.take()[0][0].item<float>(), 19);
  }
}

TEST(DataGadget, TheHostCopyIsIndependentAndComesInPieces) {
  auto gadget = DataGadget::from_tensor(at::randn({100, 6}));
  const auto copy = gadget.host_copy();
  auto pieces = at::zeros({100, 6});
  gadget.each_piece(1000, [&](const at::Tensor& rows, std::int64_t first) {
    pieces.narrow(0, first, rows.size(0)).copy_(rows);
  });
  EXPECT_TRUE(at::equal(pieces, copy));
  gadget.insert_data(at::zeros({100, 6}), RowRange{0, 100});
  EXPECT_TRUE(at::equal(pieces, copy));
}

TEST(DataGadget, TellsAutogradAndAsksIt) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "zeros.npy").string();
  DataGadget::from_tensor(at::zeros({10, 3})).save(path);
  const auto index = at::tensor({2, 8}, at::kLong);
  for (const auto placement : host_placements) {
    auto gadget = DataGadget::from_tensor(at::ones({10, 3}), {.placement = placement});
    const auto notices = [&](auto write) { return test::write_is_noticed(gadget.table().tensor(), write); };
    EXPECT_FALSE(notices([&] { (void)gadget.get_data(index); }));
    EXPECT_TRUE(notices([&] { gadget.insert_data(at::zeros({2, 3}), index); }));
    EXPECT_TRUE(notices([&] { gadget.load(path); }));
    gadget.prefetch(index);
    EXPECT_TRUE(notices([&] { gadget.insert_data(at::zeros({2, 3}), index); }));
    auto out = at::ones({2, 3}).requires_grad_();
    EXPECT_THROW(gadget.get_data(index, out), AutogradError);
    EXPECT_TRUE(at::equal(out, at::ones({2, 3})));
  }
}

TEST(DataGadget, ShapesThatDoNotFitAreNamed) {
  auto gadget = DataGadget::from_tensor(at::zeros({30, 4}));
  EXPECT_THAT(
      [&] {
        gadget.insert_data(at::zeros({2, 3}), RowRange{0, 2});
      },
      ThrowsMessage<ShapeError>(AllOf(HasSubstr("[30, 4]"), HasSubstr("[2, 3]"))));
}

}  // namespace
}  // namespace speedtorch
