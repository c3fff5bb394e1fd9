/// What a table's elements are made: each a function of the seed and of its position in the table, and of
/// nothing else. So the same seed gives the same table whatever the number of threads, the placement and the
/// shape, any window of a table can be computed alone, and no second table is ever in memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "speedtorch/memory/memory.h"

namespace speedtorch {

struct Zeros {};

/// Evenly from `low` to `high`, `high` excluded, for floating and integer dtypes (bool is 0 and 1).
///
/// Element i takes word i of NumPy's `Philox(key=seed)`. Floating: u = (word >> 11) / 2^53, then low + (high
/// - low) u in float64, rounded to the dtype (float16 and bfloat16 through float32) and kept at `low` or
/// above and below `high`: for float64 the numbers of `Generator(Philox(key=seed)).uniform(low, high)`.
/// Integers: the high half of word × (high - low), words that would make some value more frequent being drawn
/// again.
struct Uniform {
  c10::Scalar low = 0.0;
  c10::Scalar high = 1.0;
  std::optional<std::uint64_t> seed = {};  ///< none: drawn from LibTorch's default generator at each fill
};

/// Normally distributed, floating dtypes only. By Box and Muller from words 2k and 2k + 1 in float64:
/// elements 2k and 2k + 1 are mean + std r cos(2πu) and mean + std r sin(2πu), r = sqrt(-2 ln v), v = ((first
/// >> 11) + 1) / 2^53, u = (second >> 11) / 2^53. No element is further than 8.6 `std` from `mean`. `std` is
/// 0 or above.
struct Normal {
  double mean = 0;
  double std = 1;
  std::optional<std::uint64_t> seed = {};  ///< as Uniform's
};

/// Sets the whole table in place, contiguous and where it lives, as `torch::nn::init::xavier_uniform_` does.
/// Called once, on the calling thread, with gradients off. What it throws ends the fill.
using Custom = std::function<void(at::Tensor& table)>;

/// Sets `rows` (a CPU tensor of some rows, contiguous) of which the first is row `first_row` of the table.
/// Called for pieces that together are the table, several at once on several threads; where they are cut
/// depends on the shape only. For what depends on neither the table's shape nor an order of calls, as a
/// generator of random numbers does. What it throws ends the fill.
using ByPieces = std::function<void(at::Tensor& rows, std::int64_t first_row)>;

using Fill = std::variant<Zeros, Uniform, Normal, Custom, ByPieces>;

/// Fills a tensor of any device whose elements stand at positions `first` and following of the table: the
/// whole table with 0, or a window of its rows: by pieces a whole number of rows of this tensor's shape, not
/// by a Custom fill, and of random numbers by a seed only. In parallel on LibTorch's threads. Memory of a GPU
/// is filled through a block on the host of at most 64 MiB, or a row where that is longer.
/// @param tensor contiguous
/// @throws FillError where the dtype cannot hold such numbers, or the fill's own numbers are none, or for a
/// window of what only a whole table has; ShapeError for a tensor that is not contiguous; LazyTensorError
void fill(at::Tensor& tensor, const Fill& with, std::int64_t first = 0);

}  // namespace speedtorch
