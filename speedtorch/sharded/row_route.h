/// The rows of a batch by the rank that holds them. For the library's own files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "speedtorch/sharded/row_owners.h"

namespace speedtorch {

/// The rows that a batch asks for or sends, those of rank 0 first.
struct RowRoute {
  std::vector<std::int64_t> rows;       ///< their numbers at their ranks
  std::vector<std::int64_t> begins;     ///< of each rank's rows in `rows`; one more than ranks
  std::vector<std::int64_t> positions;  ///< in the batch, those of the first row first
  std::vector<std::int64_t> places;     ///< where each row's positions begin; one more than rows

  [[nodiscard]] std::int64_t count(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return begins[r + 1] - begins[r];
  }
  [[nodiscard]] std::vector<std::int64_t> counts() const;
};

enum class Repeated {
  once,
  all,
  last
};  ///< of a row's positions: as one row with all of them, each alone, or the last alone

/// @param index int32 or int64, contiguous, on the CPU
/// @throws IndexError for a number that is no row
RowRoute route_of(const at::Tensor& index, const RowOwners& owners, Repeated repeated);

}  // namespace speedtorch
