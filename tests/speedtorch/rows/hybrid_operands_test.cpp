/// Tensors on `meta` stand for those on a GPU, because the checks use only a tensor's metadata.
#include "speedtorch/rows/hybrid_operands.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

at::Tensor on_device(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

/// Five rows of [100, 4] floats that fit together, in batches of at most 10. Each test changes one of them.
struct Operands {
  at::Tensor table = on_device({100, 4}, at::kFloat);
  at::Tensor index = on_device({5}, at::kLong);
  at::Tensor host_index = at::zeros({5}, at::kLong);
  at::Tensor out = on_device({5, 4}, at::kFloat);
  void check() const { check_hybrid_operands(table, 10, index, host_index, out); }
};

TEST(HybridOperands, AcceptsOperandsThatFit) {
  Operands fit;
  EXPECT_NO_THROW(fit.check());
  fit.host_index = at::zeros({5}, at::kInt);
  EXPECT_NO_THROW(fit.check()) << "each of its own type";
}

TEST(HybridOperands, AHostIndexThatThePointerWouldNotFollowIsRefused) {
  Operands elsewhere;
  elsewhere.host_index = elsewhere.index;
  EXPECT_THAT([&] { elsewhere.check(); }, ThrowsMessage<PlacementError>(HasSubstr("host_index")));
  for (const auto& index :
       {at::zeros({1}, at::kLong).expand({5}), at::zeros({10}, at::kLong).slice(0, 0, 10, 2),
        at::zeros({5}, at::kFloat), at::zeros({5}, at::kBool)}) {
    Operands wrong;
    wrong.host_index = index;
    EXPECT_THAT([&] { wrong.check(); }, ThrowsMessage<ShapeError>(HasSubstr("host_index")));
  }
}

TEST(HybridOperands, AnIndexThatTheKernelsCannotReadIsRefused) {
  Operands elsewhere;
  elsewhere.index = elsewhere.host_index;
  EXPECT_THROW(elsewhere.check(), PlacementError);
  for (const auto& index : {on_device({10}, at::kLong).slice(0, 0, 10, 2), on_device({5}, at::kDouble)}) {
    Operands wrong;
    wrong.index = index;
    EXPECT_THROW(wrong.check(), ShapeError);
  }
}

TEST(HybridOperands, TheCountsAreOneAndNotAboveTheBatch) {
  Operands few;
  few.host_index = at::zeros({4}, at::kLong);
  EXPECT_THROW(few.check(), ShapeError);
  Operands many;
  many.index = on_device({11}, at::kLong);
  many.host_index = at::zeros({11}, at::kLong);
  many.out = on_device({11, 4}, at::kFloat);
  EXPECT_THAT([&] { many.check(); }, ThrowsMessage<ShapeError>(HasSubstr("up to 10 rows")));
}

TEST(HybridOperands, OutIsWhatTheCopyEngineWrites) {
  Operands elsewhere;
  elsewhere.out = at::zeros({5, 4});
  EXPECT_THROW(elsewhere.check(), PlacementError);
  for (const auto& out :
       {on_device({5, 3}, at::kFloat), on_device({4, 4}, at::kFloat), on_device({5, 4}, at::kDouble),
        on_device({20}, at::kFloat), on_device({5, 8}, at::kFloat).slice(1, 0, 4)}) {
    Operands wrong;
    wrong.out = out;
    EXPECT_THROW(wrong.check(), ShapeError) << out.sizes();
  }
}

TEST(HybridTable, NeedsRowsAndABatch) {
  EXPECT_NO_THROW(check_hybrid_table(at::zeros({1, 4}), 1));
  EXPECT_THROW(check_hybrid_table(at::zeros({0, 4}), 1), ShapeError);
  EXPECT_THROW(check_hybrid_table(at::zeros({4, 0}), 1), ShapeError);
  EXPECT_THROW(check_hybrid_table(at::scalar_tensor(1.0), 1), ShapeError);
  EXPECT_THROW(check_hybrid_table(at::zeros({1, 4}), 0), ShapeError);
}

TEST(HybridIndices, AreNamedByTheirPositionInTheWhole) {
  for (const auto type : {at::kLong, at::kInt}) {
    auto index = at::zeros({20}, at::kLong);
    index[3] = 100, index[17] = 50, index[18] = -1;
    const auto typed = index.to(type);
    EXPECT_NO_THROW(check_hybrid_indices(typed, 19, 50));
    EXPECT_NO_THROW(check_hybrid_indices(typed, 20, 50)) << "nothing by the copy engine";
    try {
      check_hybrid_indices(typed, 10, 50);
      FAIL() << "index 50 of 50 rows";
    } catch (const IndexError& error) {
      EXPECT_EQ(error.position(), 17);
      EXPECT_EQ(error.index(), 50);
      EXPECT_EQ(error.rows(), 50);
      EXPECT_THAT(error.what(), HasSubstr("position 17"));
    }
  }
}

}  // namespace
}  // namespace speedtorch
