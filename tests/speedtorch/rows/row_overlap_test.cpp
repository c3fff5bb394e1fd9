#include "speedtorch/rows/row_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace speedtorch {
namespace {

using kernels::ConstRows;

/// The reference: every byte of every row.
std::set<const std::byte*> bytes_of(ConstRows rows) {
  std::set<const std::byte*> all;
  for (std::int64_t i = 0; i < rows.rows; ++i)
    for (std::int64_t b = 0; b < rows.row_bytes; ++b) all.insert(rows.data + i * rows.stride_bytes + b);
  return all;
}

bool share_a_byte(ConstRows a, ConstRows b) {
  const auto of_a = bytes_of(a), of_b = bytes_of(b);
  return std::any_of(of_b.begin(), of_b.end(), [&](const auto* byte) { return of_a.count(byte) > 0; });
}

TEST(RowOverlap, EqualsTheOverlapOfTheBytes) {
  const std::vector<std::byte> memory(200);
  int apart = 0, shared = 0;
  for (const std::int64_t width : {1, 3, 5}) {
    for (const std::int64_t from_rows : {0, 1, 4}) {
      for (const std::int64_t from_stride :
           {0, 2, 5, 9}) {  // 0 and 2: rows that overlap, which is valid for reading
        for (const std::int64_t to_rows : {0, 1, 3}) {
          for (const std::int64_t to_stride : {5, 9, 14}) {
            for (std::int64_t at = 0; at < 110; ++at) {
              const ConstRows from{memory.data() + 50, from_rows, width, from_stride};
              const ConstRows to{memory.data() + at, to_rows, width, to_stride};
              const bool expected = share_a_byte(from, to);
              ASSERT_EQ(overlap(from, to), expected)
                  << width << " bytes, " << from_rows << " rows " << from_stride << " apart, " << to_rows
                  << " rows " << to_stride << " apart at " << at;
              (expected ? shared : apart) += 1;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(shared, 1000);
  EXPECT_GT(apart, 1000);
}

}  // namespace
}  // namespace speedtorch
