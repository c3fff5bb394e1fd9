/// The sum of bytes as words: a pass that reads memory once, as a user of gathered rows does at least.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace speedtorch {

/// The sum of the 8-byte words of `bytes` bytes, and of the bytes after the last whole word, modulo 2^64.
/// Read once, in order. `from` may have any alignment.
inline std::uint64_t word_sum(const std::byte* from, std::int64_t bytes) {
  constexpr std::int64_t kWord = sizeof(std::uint64_t);
  std::uint64_t sum = 0, word = 0;
  std::int64_t at = 0;
  for (; at + kWord <= bytes; at += kWord) {
    std::memcpy(&word, from + at, sizeof(word));
    sum += word;
  }
  for (; at < bytes; ++at) sum += static_cast<std::uint64_t>(from[at]);
  return sum;
}

}  // namespace speedtorch
