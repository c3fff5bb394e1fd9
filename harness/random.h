/// Random numbers that are the same on every machine: hashes of a key and a counter.
#pragma once

#include <bit>
#include <cstdint>

namespace stbench::harness {

/// The finaliser of splitmix64: a bijection of the 64-bit words in which each input bit moves half the
/// output's.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A key that differs where any of the three does.
constexpr std::uint64_t key_of(std::uint64_t seed, std::uint64_t purpose, std::uint64_t set) {
  return mix(mix(mix(seed + 0x9e3779b97f4a7c15ULL) + purpose) + set);
}

/// The sequence of a key (splitmix64).
class Random {
 public:
  explicit constexpr Random(std::uint64_t key) : state_(key) {}

  constexpr std::uint64_t word() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }

  /// Evenly from 0 to bound - 1, without the bias of a remainder (Lemire 2019).
  constexpr std::int64_t below(std::int64_t bound) {
    const auto range = static_cast<std::uint64_t>(bound);
    const std::uint64_t biased = (0 - range) % range;
    for (;;) {
      const unsigned __int128 product = static_cast<unsigned __int128>(word()) * range;
      if (static_cast<std::uint64_t>(product) >= biased) return static_cast<std::int64_t>(product >> 64);
    }
  }

  /// Evenly from 0 to 1, 1 excluded, in steps of 2^-53.
  constexpr double unit() { return static_cast<double>(word() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

/// A pseudo-random permutation of 0 … size - 1 that needs no memory: a Feistel network over the next power of
/// two, walked until it is back below `size` (under two steps on average).
class Permutation {
 public:
  constexpr Permutation(std::int64_t size, std::uint64_t key)
      : size_(static_cast<std::uint64_t>(size)), key_(key) {
    const int bits = size_ > 4 ? static_cast<int>(std::bit_width(size_ - 1)) : 2;
    low_bits_ = bits / 2;
    low_mask_ = (1ULL << low_bits_) - 1;
    high_mask_ = (1ULL << (bits - low_bits_)) - 1;
  }

  constexpr std::int64_t operator()(std::int64_t position) const {
    auto x = static_cast<std::uint64_t>(position);
    do {
      x = scramble(x);
    } while (x >= size_);
    return static_cast<std::int64_t>(x);
  }

 private:
  [[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t x) const {
    std::uint64_t low = x & low_mask_;
    std::uint64_t high = x >> low_bits_;
    for (std::uint64_t round = 0; round < 8; round += 2) {
      low ^= mix(key_ + (round << 56) + high) & low_mask_;
      high ^= mix(key_ + ((round + 1) << 56) + low) & high_mask_;
    }
    return high << low_bits_ | low;
  }

  std::uint64_t size_, key_;
  int low_bits_ = 0;
  std::uint64_t low_mask_ = 0, high_mask_ = 0;
};

}  // namespace stbench::harness
