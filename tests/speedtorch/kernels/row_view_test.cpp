#include "speedtorch/kernels/row_view.h"

#include <gtest/gtest.h>

#include <string>

#include "speedtorch/kernels/error.h"

namespace speedtorch::kernels {
namespace {

std::string refusal_of_gather(ConstRows table, std::int64_t count, Rows out) {
  try {
    check_gather_shapes(table, count, out);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "taken";
}

TEST(CheckShapes, AcceptsShapesThatFit) {
  EXPECT_EQ(refusal_of_gather({nullptr, 100, 8, 8}, 10, {nullptr, 10, 8, 16}), "taken");
  EXPECT_EQ(refusal_of_gather({nullptr, 100, 8, 0}, 10, {nullptr, 10, 8, 8}), "taken");
  EXPECT_EQ(refusal_of_gather({nullptr, 100, 8, 8}, 1, {nullptr, 1, 8, 0}), "taken");
  EXPECT_EQ(refusal_of_gather({nullptr, 100, 0, 0}, 10, {nullptr, 10, 0, 0}), "taken");
  EXPECT_NO_THROW(require_bytes_in_rows({nullptr, 100, 1, 1}));
  EXPECT_NO_THROW(check_scatter_shapes({nullptr, 10, 8, 0}, 10, {nullptr, 100, 8, 8}));
}

TEST(CheckShapes, NamesBothSidesAndTheReason) {
  EXPECT_EQ(refusal_of_gather({nullptr, 100, 8, 8}, 10, {nullptr, 10, 12, 12}),
            "table (100 rows of 8 bytes, 8 apart) and out (10 rows of 12 bytes, 12 apart): the rows differ "
            "in width");
  EXPECT_EQ(
      refusal_of_gather({nullptr, 100, 8, 8}, 9, {nullptr, 10, 8, 8}),
      "table (100 rows of 8 bytes, 8 apart) and out (10 rows of 8 bytes, 8 apart): there are 9 indices");
}

TEST(CheckShapes, RefusesImpossibleShapes) {
  EXPECT_NE(refusal_of_gather({nullptr, 100, -1, 8}, 10, {nullptr, 10, -1, 8}), "taken");
  EXPECT_THROW(require_bytes_in_rows({nullptr, 100, 0, 8}), ShapeError);
  EXPECT_NE(refusal_of_gather({nullptr, 100, 8, 8}, -1, {nullptr, -1, 8, 8}), "taken");
  EXPECT_NE(refusal_of_gather({nullptr, -1, 8, 8}, 1, {nullptr, 1, 8, 8}), "taken");
  EXPECT_NE(refusal_of_gather({nullptr, 100, 8, -8}, 10, {nullptr, 10, 8, 8}), "taken");
  EXPECT_NE(refusal_of_gather({nullptr, 100, 8, 8}, 2, {nullptr, 2, 8, 7}), "taken");
  EXPECT_EQ(refusal_of_gather({nullptr, 100, 8, 8}, 1, {nullptr, 1, 8, 7}), "taken");
  EXPECT_THROW(check_scatter_shapes({nullptr, 10, 8, 8}, 10, {nullptr, 100, 8, 7}), ShapeError);
}

TEST(Rows, AreReadAsConstRows) {
  std::byte data[32];
  const Rows rows{data, 2, 8, 16};
  const ConstRows read = rows;
  EXPECT_EQ(read.data, data);
  EXPECT_EQ(read.rows, 2);
  EXPECT_EQ(read.row_bytes, 8);
  EXPECT_EQ(read.stride_bytes, 16);
}

}  // namespace
}  // namespace speedtorch::kernels
