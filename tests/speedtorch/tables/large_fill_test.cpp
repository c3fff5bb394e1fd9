#include "tests/speedtorch/tables/large_fill.h"

namespace speedtorch {
namespace {

TEST(LargeFill, UniformSetsEveryRowOfMoreThan31BitsOfElements) {
  test::expect_whole_large_fill(at::kChar, Uniform{1, 100, 3}, 1, 99, -5);
}

TEST(LargeFill, ZerosSetEveryRowOfMoreThan31BitsOfElements) {
  test::expect_whole_large_fill(at::kChar, Zeros{}, 0, 0, -5);
}

}  // namespace
}  // namespace speedtorch
