#include "speedtorch/sharded/row_owners.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "speedtorch/error.h"

namespace speedtorch {
namespace {

constexpr std::string_view kNames[] = {"blocks", "cyclic", "hashed"};
constexpr std::uint64_t kRounds = 4;  // of a Feistel network, which permutes whatever its rounds compute

/// One round: the upper half becomes the lower one, mixed with a hash of it (the finalizer of MurmurHash3).
std::uint64_t round_of(std::uint64_t half, std::uint64_t round) {
  auto word = half + (round + 1) * 0x9E3779B97F4A7C15ULL;
  word = (word ^ (word >> 33)) * 0xFF51AFD7ED558CCDULL;
  word = (word ^ (word >> 33)) * 0xC4CEB9FE1A85EC53ULL;
  return word ^ (word >> 33);
}

std::uint64_t permuted(std::uint64_t word, int half_bits) {
  const auto mask = (std::uint64_t{1} << half_bits) - 1;
  auto left = word >> half_bits, right = word & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round)
    left = std::exchange(right, left ^ (round_of(right, round) & mask));
  return left << half_bits | right;
}

std::uint64_t unpermuted(std::uint64_t word, int half_bits) {
  const auto mask = (std::uint64_t{1} << half_bits) - 1;
  auto left = word >> half_bits, right = word & mask;
  for (auto round = kRounds; round-- > 0;)
    right = std::exchange(left, right ^ (round_of(left, round) & mask));
  return left << half_bits | right;
}

}  // namespace

std::string_view to_string(Sharding sharding) { return kNames[static_cast<std::size_t>(sharding)]; }

Sharding sharding_of(std::string_view name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<Sharding>(found - std::begin(kNames));
  throw OptionError("sharding is '" + std::string(name) + "'; choose blocks, cyclic, hashed");
}

RowOwners::RowOwners(Sharding sharding, std::int64_t rows, int ranks)
    : sharding_(sharding),
      rows_(rows),
      ranks_(ranks),
      block_(std::max<std::int64_t>(1, (rows - 1) / ranks + 1)) {
  const auto bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(0, rows - 1)));
  half_bits_ = static_cast<int>(bits + 1) / 2;
}

std::int64_t RowOwners::row_of(Place place) const {
  if (sharding_ == Sharding::cyclic) return place.row * ranks_ + place.rank;
  const auto row = place.rank * block_ + place.row;
  return sharding_ == Sharding::hashed ? unshuffled(row) : row;
}

std::int64_t RowOwners::rows_of(int rank) const {
  if (sharding_ == Sharding::cyclic) return (rows_ - rank + ranks_ - 1) / ranks_;
  return std::clamp<std::int64_t>(rows_ - rank * block_, 0, block_);
}

/// Repeats a permutation of a power of four, at most four times the rows, until it leads back to a row.
std::int64_t RowOwners::shuffled(std::int64_t row) const {
  do row = static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(row), half_bits_));
  while (row >= rows_);
  return row;
}

std::int64_t RowOwners::unshuffled(std::int64_t row) const {
  do row = static_cast<std::int64_t>(unpermuted(static_cast<std::uint64_t>(row), half_bits_));
  while (row >= rows_);
  return row;
}

}  // namespace speedtorch
