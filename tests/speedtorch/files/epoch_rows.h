/// Rows that say which version of themselves they are, for tests that kill their writers.
#pragma once

#include <array>
#include <cstdint>

#include "harness/random.h"

namespace speedtorch::test {

constexpr std::int64_t kWords = 100;  // 800 bytes: five rows share a page, and some straddle two
using Row = std::array<std::int64_t, kWords>;

/// The content of a row after an epoch: its number, the epoch, and a checksum of both in each further word.
/// So a row that is half old or another's is detected.
inline Row row_of(std::int64_t row, std::int64_t epoch) {
  Row content{row, epoch};
  const auto key =
      stbench::harness::key_of(7, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(epoch));
  for (std::size_t i = 2; i < content.size(); ++i)
    content[i] = static_cast<std::int64_t>(stbench::harness::mix(key + i));
  return content;
}

}  // namespace speedtorch::test
