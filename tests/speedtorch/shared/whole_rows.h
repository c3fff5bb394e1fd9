/// Rows of which each word says the row and who wrote it, so that a mix of two is seen.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <cstdint>

#include "harness/random.h"

namespace speedtorch::test {

constexpr std::int64_t kWords = 100;  // 800 bytes: rows straddle cache lines and pages

inline std::int64_t word(std::int64_t row, std::int64_t tag, std::int64_t column) {
  return tag << 40 | row << 8 | column;
}

/// The whole rows of an index as the writer `tag` writes them.
inline at::Tensor rows_by(std::int64_t tag, const at::Tensor& index) {
  auto rows = at::empty({index.numel(), kWords}, at::kLong);
  auto* value = rows.mutable_data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < index.numel(); ++k)
    for (std::int64_t c = 0; c < kWords; ++c)
      *value++ = word(index.const_data_ptr<std::int64_t>()[k], tag, c);
  return rows;
}

inline at::Tensor all_rows_by(std::int64_t tag, std::int64_t rows) {
  return rows_by(tag, at::arange(rows, at::kLong));
}

/// How many of the rows are not whole: those of an index, in its order.
inline std::int64_t torn(const at::Tensor& rows, const at::Tensor& index) {
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < index.numel(); ++k) {
    const auto* const found = rows.const_data_ptr<std::int64_t>() + k * kWords;
    bool whole = true;
    for (std::int64_t c = 0; c < kWords; ++c)
      whole = whole && found[c] == word(index.const_data_ptr<std::int64_t>()[k], found[0] >> 40, c);
    count += whole ? 0 : 1;
  }
  return count;
}

inline std::int64_t torn(const at::Tensor& table) {
  return torn(table, at::arange(table.size(0), at::kLong));
}

/// `count` row numbers, some of them several times.
inline at::Tensor any_rows(std::uint64_t seed, std::int64_t count, std::int64_t rows) {
  stbench::harness::Random random(stbench::harness::key_of(5, seed, 0));
  auto index = at::empty({count}, at::kLong);
  for (std::int64_t k = 0; k < count; ++k) index.mutable_data_ptr<std::int64_t>()[k] = random.below(rows);
  return index;
}

}  // namespace speedtorch::test
