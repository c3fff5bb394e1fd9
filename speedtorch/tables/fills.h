/// Fills for tables. Each element is a function of the seed and its position alone. So the same seed gives
/// the same table for any number of threads, placement and shape, any window can be computed alone, and a
/// fill needs no second table in memory.
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

/// Uniform in [low, high), for floating and integer dtypes (for bool 0 and 1).
///
/// Element i uses word i of NumPy's `Philox(key=seed)`.
/// - Floating dtypes: u = (word >> 11) / 2^53, then low + (high - low) * u in float64, rounded to the dtype
///   (float16 and bfloat16 by way of float32) and clamped into [low, high). float64 gives the numbers of
///   `Generator(Philox(key=seed)).uniform(low, high)`.
/// - Integers: the upper half of word × (high - low). Words that would favour some values are drawn again.
struct Uniform {
  c10::Scalar low = 0.0;
  c10::Scalar high = 1.0;
  std::optional<std::uint64_t> seed =
      {};  ///< if absent, each fill draws it from LibTorch's default generator
};

/// Normally distributed, for floating dtypes. `std` is 0 or more.
///
/// Box-Muller in float64 from words 2k and 2k + 1: elements 2k and 2k + 1 are mean + std r cos(2πu) and mean
/// + std r sin(2πu), with r = sqrt(-2 ln v), v = ((first >> 11) + 1) / 2^53 and u = (second >> 11) / 2^53. No
/// element is further than 8.6 `std` from `mean`.
struct Normal {
  double mean = 0;
  double std = 1;
  std::optional<std::uint64_t> seed = {};  ///< as in Uniform
};

/// Sets the whole contiguous table in place, as `torch::nn::init::xavier_uniform_` does. Called once, on the
/// calling thread, with gradients off. An exception ends the fill.
using Custom = std::function<void(at::Tensor& table)>;

/// Sets `rows`, a contiguous CPU tensor whose first row is row `first_row` of the table. Called for pieces
/// that together are the table, several at once on several threads. The shape alone decides where the pieces
/// are cut. Do not use it for fills that depend on the table's shape or on the order of calls, as random
/// generators do. An exception ends the fill.
using ByPieces = std::function<void(at::Tensor& rows, std::int64_t first_row)>;

using Fill = std::variant<Zeros, Uniform, Normal, Custom, ByPieces>;

/// Fills a contiguous tensor on any device, in parallel on LibTorch's threads. Memory of a GPU is filled
/// through a host block of at most 64 MiB or one row.
///
/// @param first the position of the tensor's first element in the table: 0 for the whole table. A window of a
/// table needs a seed for random numbers, whole rows for ByPieces, and cannot use Custom.
/// @throws FillError if the dtype cannot hold such numbers, if the fill's parameters are invalid, or if a
/// window has such a fill; ShapeError for a tensor that is not contiguous; LazyTensorError
void fill(at::Tensor& tensor, const Fill& with, std::int64_t first = 0);

}  // namespace speedtorch
