#include "benchmarks/row_check.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>

namespace stbench {
namespace {

constexpr std::uint64_t seed = 5;
constexpr std::int64_t count = 4000, dim = 16;

/// The fill of `count` rows as the dtype: its random bits hold NaNs of every kind, and zeros of 16 bits with
/// a sign.
at::Tensor filled(at::ScalarType dtype, std::span<const std::int64_t> rows) {
  auto tensor = at::zeros({count, dim}, at::TensorOptions().dtype(dtype));
  fill_rows(tensor, rows, [](std::int64_t) { return seed; });
  return tensor;
}

TEST(RowCheck, WhatWasAddedToZeroIsTheSameAsANumberAndNotAlwaysInItsBits) {
  std::vector<std::int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  std::int64_t other_bits = 0;
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const auto table = filled(dtype, rows);
    const auto row_bytes = static_cast<std::int64_t>(table.nbytes()) / count;
    const auto sum = table.add(at::zeros({}, at::TensorOptions().dtype(dtype)));
    EXPECT_EQ(check_rows(table, rows, row_bytes, seed, "sum").mismatches, 0);
    EXPECT_EQ(check_rows(sum, rows, row_bytes, seed, "sum", Equality::numbers).mismatches, 0) << dtype;
    other_bits += check_rows(sum, rows, row_bytes, seed, "sum").mismatches;

    auto wrong = sum.clone();
    wrong[17][dim - 1] = 1.25;
    wrong[40] = wrong[41];
    const auto check = check_rows(wrong, rows, row_bytes, seed, "sum", Equality::numbers);
    EXPECT_EQ(check.mismatches, 2) << dtype;
    EXPECT_NE(check.first.find("position 17 (table row 17), from byte"), std::string::npos) << check.first;
  }
  EXPECT_GT(other_bits, 0);
}

}  // namespace
}  // namespace stbench
