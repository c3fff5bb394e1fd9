/// Random words as a function of a seed and a position: the counter-based generator Philox 4x64 with ten
/// rounds (Salmon, Moraes, Dror and Shaw 2011), counted and keyed as NumPy's `Philox(key=seed)` is.
#pragma once

#include <array>
#include <cstdint>

namespace speedtorch {

using PhiloxBlock = std::array<std::uint64_t, 4>;

/// The generator's ten rounds: four random words per counter and key.
constexpr PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint64_t, 2> key) {
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    const auto left = static_cast<unsigned __int128>(counter[0]) * 0xD2E7470EE14C6C93U;
    const auto right = static_cast<unsigned __int128>(counter[2]) * 0xCA5A826395121157U;
    counter = {
        static_cast<std::uint64_t>(right >> 64) ^ counter[1] ^ key[0], static_cast<std::uint64_t>(right),
        static_cast<std::uint64_t>(left >> 64) ^ counter[3] ^ key[1], static_cast<std::uint64_t>(left)};
    key[0] += 0x9E3779B97F4A7C15U;  // the golden ratio
    key[1] += 0xBB67AE8584CAA73BU;  // the square root of 3, less 1
  }
  return counter;
}

/// Words 4·block to 4·block + 3 of the seed's sequence. NumPy counts its first block as 1. `attempt` 1 and
/// above select further sequences, which no NumPy generator of that key produces.
constexpr PhiloxBlock random_block(std::uint64_t seed, std::uint64_t block, std::uint64_t attempt = 0) {
  return philox({block + 1, 0, 0, attempt}, {seed, 0});
}

}  // namespace speedtorch
