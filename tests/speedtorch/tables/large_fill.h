/// Fills of tables of more than 2^31 elements. (SpeedTorch of 2019 left two thirds of such a table
/// unchanged.)
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "speedtorch/system/limits.h"
#include "speedtorch/tables/fills.h"
#include "speedtorch/tables/table.h"

namespace speedtorch::test {

constexpr std::int64_t large_row = 64;
constexpr std::int64_t large_rows = (std::int64_t{1} << 31) / large_row + 3;

/// A table of 2^31 elements and three rows. Each element starts with a value that `with` never gives, so that
/// unfilled elements show.
/// @param dtype of one or two bytes
/// @param least and most that `with` can give
inline void expect_whole_large_fill(at::ScalarType dtype, const Fill& with, double least, double most,
                                    double unset) {
  const auto bytes = large_rows * large_row * static_cast<std::int64_t>(c10::elementSize(dtype));
  const auto free = memory_limits(MemoryUse::anonymous).front();
  if (free.free < bytes + (std::int64_t{1} << 30))
    GTEST_SKIP() << "needs " << bytes + (std::int64_t{1} << 30) << " bytes of memory; the limit is "
                 << free.name;
  auto table = Table::empty({large_rows, large_row}, dtype);
  auto rows = table.tensor();
  rows.fill_(unset);
  table.fill(with);
  constexpr std::int64_t past_31_bits = large_rows - 3, past_30_bits = past_31_bits / 2;
  for (const std::int64_t row :
       {std::int64_t{0}, std::int64_t{1}, large_rows / 3 - 1, large_rows / 3, past_30_bits - 1, past_30_bits,
        2 * large_rows / 3, past_31_bits - 1, past_31_bits, past_31_bits + 1, large_rows - 1}) {
    auto alone = at::full({1, large_row}, unset, dtype);
    fill(alone, with, row * large_row);
    EXPECT_TRUE(at::equal(rows.narrow(0, row, 1).view(at::kByte), alone.view(at::kByte))) << "row " << row;
  }
  const auto [low, high] = at::aminmax(rows);
  EXPECT_GE(low.to(at::kDouble).item<double>(), least);
  EXPECT_LE(high.to(at::kDouble).item<double>(), most);
}

}  // namespace speedtorch::test
