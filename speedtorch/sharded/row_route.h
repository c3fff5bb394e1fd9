/// The rows of a batch by the rank that holds them. For the library's own files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "speedtorch/sharded/row_owners.h"

namespace speedtorch {

enum class Repeated {
  once,
  all,
  last
};  ///< of a row's positions: as one row with all of them, each alone, or the last alone

/// The rows that a batch asks for or sends, those of rank 0 first. The rows of a rank are in the order of
/// their first positions. The memory is kept from one batch to the next.
class RowRoute {
 public:
  /// @param index int32 or int64, contiguous, on the CPU
  /// @throws IndexError for a number that is no row; ShapeError for 2^32 - 1 numbers or more. Then there are
  /// no rows.
  void find(const at::Tensor& index, const RowOwners& owners, Repeated repeated);
  void clear(int ranks);

  std::vector<std::int64_t> rows;    ///< their numbers at their ranks
  std::vector<std::int64_t> begins;  ///< of each rank's rows in `rows`; one more than ranks

  [[nodiscard]] std::int64_t count(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return begins[r + 1] - begins[r];
  }
  [[nodiscard]] std::vector<std::int64_t> counts() const;

  /// The position in the batch of each of `rows`, or the last of them.
  std::vector<std::int64_t> positions;
  /// The other positions, if rows travel once: numbers in `rows`, ascending, and a position of each.
  std::vector<std::int64_t> repeat_rows, repeat_positions;

 private:
  template <class Index>
  void find_distinct(const Index* index, std::int64_t count, bool chained);
  template <class Index>
  void take_all(const Index* index, std::int64_t count);
  void order_by_rank(const RowOwners& owners);

  std::vector<std::int64_t> named_;   // rows of the whole table, in the order of the batch
  std::vector<std::int64_t> last_;    // the last position of each
  std::vector<std::uint32_t> slots_;  // a hash table: 1 + a place in named_
  std::vector<RowOwners::Place> where_;
  std::vector<std::int64_t> next_;  // of each position: the one before it of the same row, or -1
};

}  // namespace speedtorch
