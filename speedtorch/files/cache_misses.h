/// The rows of a batch that a RowCache does not hold. No LibTorch. For the library's own files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace speedtorch {

/// A look-up that found nothing: the row, its set's version at that moment, and its position in the result.
struct Missed {
  std::int64_t row;
  std::int64_t position;
  std::uint32_t version;
};

/// A missed row, and those of its look-ups in a sorted list of Missed. `place` is its position in a buffer.
struct MissedRow {
  std::int64_t row;
  std::uint32_t version;
  std::size_t first, last;
  std::int64_t place;
};

/// The distinct rows, ascending, with place 0. Sorts `missed`.
std::vector<MissedRow> missed_rows(std::vector<Missed>& missed);

/// The look-ups of one call, and their memory for the next.
struct LookUps {
  std::vector<std::int32_t> slots;  ///< of each element of the index; 0 for missed rows
  std::vector<Missed> missed;
};

}  // namespace speedtorch
