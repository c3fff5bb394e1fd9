#include "speedtorch/kernels/error.h"

#include <gtest/gtest.h>

namespace speedtorch {
namespace {

TEST(IndexError, NamesPositionValueAndRange) {
  const IndexError error(3, -7, 10);
  EXPECT_STREQ(error.what(), "index -7 at position 3 names no row: the table's rows are 0 to 9");
  EXPECT_EQ(error.position(), 3);
  EXPECT_EQ(error.index(), -7);
  EXPECT_EQ(error.rows(), 10);
}

TEST(IndexError, SaysThatAnEmptyTableHasNoRows) {
  EXPECT_STREQ(IndexError(0, 0, 0).what(), "index 0 at position 0 names no row: the table has no rows");
}

TEST(CudaError, HasTheCallAndTheNameOfTheError) {
  const CudaError error("cudaMalloc", "cudaErrorMemoryAllocation", "out of memory");
  EXPECT_STREQ(error.what(), "cudaMalloc failed: cudaErrorMemoryAllocation (out of memory)");
  EXPECT_EQ(error.name(), "cudaErrorMemoryAllocation");
}

TEST(Errors, AreAllOfTheLibrarysType) {
  EXPECT_THROW(throw IndexError(0, 0, 0), Error);
  EXPECT_THROW(throw ShapeError("shapes"), Error);
  EXPECT_THROW(throw CudaError("a", "b", "c"), Error);
}

}  // namespace
}  // namespace speedtorch
