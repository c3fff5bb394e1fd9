#include "harness/fill.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace stbench::harness {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::uint64_t kSeed = 42;

/// The stream's bytes [0, size), byte by byte from word().
Bytes plain_stream(std::size_t size, std::uint64_t seed = kSeed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(word(seed, i / 8) >> (8 * (i % 8)));
  return bytes;
}

std::int64_t mismatch(const Bytes& data, std::int64_t begin = 0, std::uint64_t seed = kSeed) {
  return first_mismatch(data.data(), begin, static_cast<std::int64_t>(data.size()), seed);
}

TEST(Word, DiffersWithSeedAndPosition) {
  std::set<std::uint64_t> words;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (std::uint64_t position = 0; position < 1000; ++position) words.insert(word(seed, position));
  }
  EXPECT_EQ(words.size(), 100'000U);
}

TEST(Fill, WritesTheStreamAndNothingElse) {
  const Bytes stream = plain_stream(100);
  for (std::size_t misaligned : {0U, 1U, 5U}) {
    for (std::int64_t begin = 0; begin <= 40; ++begin) {
      for (std::int64_t end = begin; end <= 70; ++end) {
        Bytes buffer(110, std::byte{0xEE});
        std::byte* base = buffer.data() + misaligned;
        fill(base + begin, begin, end, kSeed);
        for (std::int64_t i = 0; i < 100; ++i) {
          const bool inside = i >= begin && i < end;
          ASSERT_EQ(base[i], inside ? stream[static_cast<std::size_t>(i)] : std::byte{0xEE})
              << begin << " " << end;
        }
      }
    }
  }
}

TEST(FirstMismatch, AcceptsTheStreamFromAnyByte) {
  const Bytes stream = plain_stream(3000);
  for (std::int64_t begin = 0; begin <= 20; ++begin) {
    for (std::int64_t bytes : {0, 1, 2, 7, 8, 9, 15, 16, 17, 511, 512, 513, 1024, 2900}) {
      ASSERT_EQ(first_mismatch(stream.data() + begin, begin, bytes, kSeed), -1) << begin << " " << bytes;
    }
  }
}

/// The page behind the data cannot be read.
TEST(FirstMismatch, ReadsNothingBehindTheEnd) {
  constexpr std::int64_t page = 4096;
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const end = static_cast<std::byte*>(pages) + page;
  ASSERT_EQ(::mprotect(end, page, PROT_NONE), 0);
  for (std::int64_t bytes = 0; bytes < 1200; ++bytes) {
    fill(end - bytes, 3, 3 + bytes, kSeed);
    EXPECT_EQ(first_mismatch(end - bytes, 3, bytes, kSeed), -1) << bytes;
  }
  ::munmap(pages, 2 * page);
}

TEST(FirstMismatch, FindsEachSingleBit) {
  const Bytes stream = plain_stream(700);
  for (std::int64_t begin : {0, 3, 8}) {
    for (std::size_t at = static_cast<std::size_t>(begin); at < stream.size(); ++at) {
      Bytes damaged = stream;
      damaged[at] ^= static_cast<std::byte>(1U << (at % 8));
      ASSERT_EQ(first_mismatch(damaged.data() + begin, begin, 700 - begin, kSeed),
                static_cast<std::int64_t>(at) - begin);
    }
  }
}

TEST(FirstMismatch, FindsTheFirstOfMany) {
  std::mt19937_64 engine(5);
  const Bytes stream = plain_stream(5000);
  for (int trial = 0; trial < 300; ++trial) {
    Bytes damaged = stream;
    const auto first = static_cast<std::int64_t>(engine() % 5000);
    damaged[static_cast<std::size_t>(first)] ^= std::byte{0x80};
    for (int more = 0; more < 5; ++more) {
      const std::size_t later =
          static_cast<std::size_t>(first) + engine() % (5000 - static_cast<std::uint64_t>(first));
      damaged[later] ^= std::byte{0x01};
    }
    ASSERT_EQ(mismatch(damaged), first);
  }
}

TEST(FirstMismatch, IsTheFirstByteWhereAllDiffer) {
  const Bytes stream = plain_stream(700);
  for (std::int64_t begin = 0; begin < 17; ++begin) {
    for (std::int64_t end = begin + 1; end < begin + 40; ++end) {
      Bytes damaged = stream;
      for (auto& byte : damaged) byte = ~byte;
      ASSERT_EQ(first_mismatch(damaged.data() + begin, begin, end - begin, kSeed), 0) << begin << ", " << end;
    }
  }
}

TEST(FirstMismatch, SeesAnotherSeed) {
  EXPECT_EQ(mismatch(plain_stream(8000, kSeed + 1)) >= 0, true);
  EXPECT_EQ(mismatch(plain_stream(8000, kSeed + 1), 0, kSeed + 1), -1);
}

/// Planted faults: each row of a table of that width, copied wrongly.
class Rows : public testing::TestWithParam<std::int64_t> {
 protected:
  static constexpr std::int64_t kRows = 64;
  std::int64_t width_ = GetParam();
  Bytes table_ = plain_stream(static_cast<std::size_t>(kRows * width_));

  [[nodiscard]] const std::byte* row(std::int64_t r) const { return table_.data() + r * width_; }
  /// What the check says of bytes that stand where row r should.
  [[nodiscard]] std::int64_t checked_as(std::int64_t r, const std::byte* bytes) const {
    return first_mismatch(bytes, r * width_, width_, kSeed);
  }
};

/// Rows of one or two bytes are equal by chance, so only these can all be told apart.
class WideRows : public Rows {};

TEST_P(Rows, AreRight) {
  for (std::int64_t r = 0; r < kRows; ++r) ASSERT_EQ(checked_as(r, row(r)), -1);
}

TEST_P(WideRows, SwappedAreSeen) {
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t other = 0; other < kRows; ++other) {
      if (other == r) continue;
      ASSERT_GE(checked_as(r, row(other)), 0) << r << " " << other;
    }
  }
}

TEST_P(WideRows, ShiftedByAColumnAreSeen) {
  for (std::int64_t r = 1; r + 1 < kRows; ++r) {
    ASSERT_GE(checked_as(r, row(r) + 1), 0);
    ASSERT_GE(checked_as(r, row(r) - 1), 0);
  }
}

TEST_P(Rows, DetectsHalfCopiedRows) {
  for (const std::byte poison : {std::byte{0x00}, std::byte{0xFF}, std::byte{0xA5}}) {
    int seen = 0;
    for (std::int64_t r = 0; r < kRows; ++r) {
      Bytes half(row(r), row(r) + width_);
      std::fill(half.begin() + width_ / 2, half.end(), poison);
      seen += checked_as(r, half.data()) >= width_ / 2 ? 1 : 0;
    }
    // One byte equals the poison by chance in 1 of 256.
    EXPECT_GE(seen, width_ <= 2 ? kRows - 5 : kRows);
  }
}

TEST_P(WideRows, StaleAreSeen) {
  const Bytes stale = plain_stream(table_.size(), kSeed + 1);
  for (std::int64_t r = 0; r < kRows; ++r) ASSERT_GE(checked_as(r, stale.data() + r * width_), 0);
}

INSTANTIATE_TEST_SUITE_P(Widths, Rows, testing::Values(1, 2, 4, 6, 8, 12, 20, 129, 512, 516));
INSTANTIATE_TEST_SUITE_P(Widths, WideRows, testing::Values(4, 6, 8, 12, 20, 129, 512, 516));

}  // namespace
}  // namespace stbench::harness
