#include "tests/speedtorch/tables/large_fill.h"

namespace speedtorch {
namespace {

TEST(LargeFillLong, UniformOfTwoBytes) {
  test::expect_whole_large_fill(at::kHalf, Uniform{1.0, 2.0, 3}, 1, 1.9999, -5);
}

TEST(LargeFillLong, Normal) {
  test::expect_whole_large_fill(at::kHalf, Normal{20, 1, 3}, 20 - 8.7, 20 + 8.7, -5);
}

TEST(LargeFillLong, Custom) {
  const ByPieces row_numbers = [](at::Tensor& rows, std::int64_t first) {
    rows.copy_(
        at::arange(first, first + rows.size(0)).remainder(97).add(1).unsqueeze(1).expand(rows.sizes()));
  };
  test::expect_whole_large_fill(at::kChar, row_numbers, 1, 97, -5);
}

}  // namespace
}  // namespace speedtorch
