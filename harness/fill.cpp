#include "harness/fill.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "harness/random.h"

namespace stbench::harness {
namespace {

static_assert(std::endian::native == std::endian::little, "the stream's words are little-endian");
constexpr std::int64_t kWord = 8;
constexpr std::int64_t kBlockWords = 64;

constexpr std::uint64_t key_of_seed(std::uint64_t seed) { return mix(seed + 0x9e3779b97f4a7c15ULL); }

/// The key is exclusive-ored, not added: two seeds' streams are then no shifted copies of each other.
constexpr std::uint64_t keyed_word(std::uint64_t key, std::uint64_t position) {
  return mix(key ^ (position * 0x9e3779b97f4a7c15ULL));
}

/// Calls part(position, offset in the word, bytes) for the parts of words before the first and behind the
/// last whole word of [begin, end), and whole(first position, words) for those between.
template <class Part, class Whole>
void cut(std::int64_t begin, std::int64_t end, Part part, Whole whole) {
  const std::int64_t first = (begin + kWord - 1) / kWord;
  const std::int64_t last = end / kWord;
  if (begin < std::min(first * kWord, end))
    part(begin / kWord, begin % kWord, std::min(first * kWord, end) - begin);
  if (first < last) whole(first, last - first);
  if (first <= last && last * kWord < end) part(last, 0, end - last * kWord);
}

void fill_words(std::byte* to, std::int64_t position, std::int64_t words, std::uint64_t key) {
  for (std::int64_t i = 0; i < words; ++i) {
    const std::uint64_t value = keyed_word(key, static_cast<std::uint64_t>(position + i));
    std::memcpy(to + i * kWord, &value, sizeof value);
  }
}

/// The bits in which so many words differ from the stream, all in one: a loop without a branch, for the
/// compiler.
std::uint64_t difference(const std::byte* data, std::int64_t position, std::int64_t words,
                         std::uint64_t key) {
  std::uint64_t bits = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    std::uint64_t value;
    std::memcpy(&value, data + i * kWord, sizeof value);
    bits |= value ^ keyed_word(key, static_cast<std::uint64_t>(position + i));
  }
  return bits;
}

/// The first of so many words that differs, or `words`.
std::int64_t first_other_word(const std::byte* data, std::int64_t position, std::int64_t words,
                              std::uint64_t key) {
  std::int64_t i = 0;
  for (; i < words; i += kBlockWords) {
    const std::int64_t block = std::min(kBlockWords, words - i);
    if (difference(data + i * kWord, position + i, block, key) != 0) break;
  }
  while (i < words && difference(data + i * kWord, position + i, 1, key) == 0) ++i;
  return std::min(i, words);
}

/// The first of `bytes` bytes that differs from the word's, or `bytes`.
std::int64_t first_other_byte(const std::byte* data, std::uint64_t expected, std::int64_t offset,
                              std::int64_t bytes) {
  std::byte right[kWord];
  std::memcpy(right, &expected, sizeof right);
  return std::mismatch(data, data + bytes, right + offset).first - data;
}

}  // namespace

std::uint64_t word(std::uint64_t seed, std::uint64_t position) {
  return keyed_word(key_of_seed(seed), position);
}

void fill(std::byte* data, std::int64_t begin_byte, std::int64_t end_byte, std::uint64_t seed) {
  const std::uint64_t key = key_of_seed(seed);
  const auto at = [&](std::int64_t stream_byte) { return data + (stream_byte - begin_byte); };
  cut(
      begin_byte, end_byte,
      [&](std::int64_t position, std::int64_t offset, std::int64_t bytes) {
        const std::uint64_t value = keyed_word(key, static_cast<std::uint64_t>(position));
        std::memcpy(at(position * kWord + offset), reinterpret_cast<const std::byte*>(&value) + offset,
                    static_cast<std::size_t>(bytes));
      },
      [&](std::int64_t position, std::int64_t words) {
        fill_words(at(position * kWord), position, words, key);
      });
}

std::int64_t first_mismatch(const std::byte* data, std::int64_t stream_begin, std::int64_t bytes,
                            std::uint64_t seed) {
  const std::uint64_t key = key_of_seed(seed);
  std::int64_t found = -1;
  const auto at = [&](std::int64_t stream_byte) { return stream_byte - stream_begin; };
  const auto check_part = [&](std::int64_t position, std::int64_t offset, std::int64_t length) {
    if (found >= 0) return;
    const std::int64_t begin = at(position * kWord + offset);
    const std::uint64_t expected = keyed_word(key, static_cast<std::uint64_t>(position));
    const std::int64_t other = first_other_byte(data + begin, expected, offset, length);
    if (other < length) found = begin + other;
  };
  const auto check_words = [&](std::int64_t position, std::int64_t words) {
    if (found >= 0) return;
    const std::int64_t other = first_other_word(data + at(position * kWord), position, words, key);
    if (other < words) check_part(position + other, 0, kWord);
  };
  cut(stream_begin, stream_begin + bytes, check_part, check_words);
  return found;
}

}  // namespace stbench::harness
