#include "benchmarks/transfer/reading_pass.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

namespace stbench {
namespace {

TEST(ReadingPass, SumsTheWords) {
  const auto words = at::arange(1, 100'001, at::kLong);
  EXPECT_EQ(sum_of_words(words), 100'000ULL * 100'001 / 2);
  EXPECT_EQ(plain_sum_of_words(words), 100'000ULL * 100'001 / 2);
}

TEST(ReadingPass, AddsTheBytesAfterTheLastWord) {
  for (const std::int64_t size : {0, 1, 7, 8, 9, 23}) {
    const auto rows = at::full({size}, 255, at::kByte);
    const auto words = static_cast<std::uint64_t>(size / 8), rest = static_cast<std::uint64_t>(size % 8);
    EXPECT_EQ(sum_of_words(rows), 0 - words + 255 * rest) << size;  // a word of ones is -1
    EXPECT_EQ(plain_sum_of_words(rows), 0 - words + 255 * rest) << size;
  }
}

/// More words than one thread takes.
TEST(ReadingPass, IsTheSameOnSeveralThreads) {
  const auto rows = at::randint(0, 256, {3'000'001}, at::kByte);
  EXPECT_EQ(sum_of_words(rows), plain_sum_of_words(rows));
}

}  // namespace
}  // namespace stbench
