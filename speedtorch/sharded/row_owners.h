/// Maps the rows of a sharded table to the ranks of a group.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace speedtorch {

/// How rows are spread over the ranks.
enum class Sharding {
  blocks,  ///< rank r holds rows r*b to (r+1)*b - 1, with b rows per rank, rounded up
  cyclic,  ///< row i is on rank i modulo the number of ranks
  hashed,  ///< `blocks` of the rows in a fixed pseudo-random order, so that neither runs nor strides of hot
           ///< rows meet
};

std::string_view to_string(Sharding sharding);
/// @throws OptionError naming the right ones
Sharding sharding_of(std::string_view name);

/// The same on each rank: it depends on its arguments alone.
class RowOwners {
 public:
  /// @param rows of the whole table, 0 or more
  /// @param ranks 1 or more
  RowOwners(Sharding sharding, std::int64_t rows, int ranks);

  /// A row's rank, and its number among the rows of that rank.
  struct Place {
    int rank;
    std::int64_t row;
  };
  /// For a row from 0 to rows() - 1.
  [[nodiscard]] Place place_of(std::int64_t row) const {
    if (sharding_ == Sharding::cyclic) return {static_cast<int>(row % ranks_), row / ranks_};
    if (sharding_ == Sharding::hashed) row = shuffled(row);
    return {static_cast<int>(row / block_), row % block_};
  }
  /// The row that rank `place.rank` holds as its row `place.row`.
  [[nodiscard]] std::int64_t row_of(Place place) const;
  /// The number of rows that a rank holds.
  [[nodiscard]] std::int64_t rows_of(int rank) const;

  /// The bytes that hold any row's number in its rank: 4, or 8 for shards of 2^31 rows or more.
  [[nodiscard]] std::int64_t number_bytes() const {
    return rows_of(0) <= std::numeric_limits<std::int32_t>::max() ? 4 : 8;
  }

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Sharding sharding() const { return sharding_; }

 private:
  [[nodiscard]] std::int64_t shuffled(std::int64_t row) const;
  [[nodiscard]] std::int64_t unshuffled(std::int64_t row) const;

  Sharding sharding_;
  std::int64_t rows_;
  int ranks_;
  std::int64_t block_;
  int half_bits_ = 0;  // a shuffle is of 2 * half_bits_ bits
};

}  // namespace speedtorch
