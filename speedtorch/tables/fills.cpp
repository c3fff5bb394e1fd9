#include "speedtorch/tables/fills.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "speedtorch/error.h"
#include "speedtorch/memory/block.h"
#include "speedtorch/tables/philox.h"
#include "speedtorch/tensors.h"
#include "speedtorch/threads.h"

namespace speedtorch {
namespace {

constexpr std::int64_t lanes = 4;
constexpr double unit_step = 0x1p-53;
constexpr std::int64_t piece_elements = std::int64_t{1} << 16;      // of which each thread gets many
constexpr std::int64_t row_piece_bytes = std::int64_t{1} << 20;     // of a fill by pieces
constexpr std::int64_t staged_fill_bytes = std::int64_t{64} << 20;  // on the host, for a GPU's memory
/// sqrt(-2 ln 2^-53), from the smallest word.
constexpr double furthest_normal = 8.6;

/// Writes the elements at positions [first, first + count) of the table to `data`.
using Writer = std::function<void(void* data, std::int64_t first, std::int64_t count)>;

/// Calls body(i, words of its block, i's word there) for the `count` positions from `first` on.
template <class Body>
void each_block(std::uint64_t seed, std::int64_t first, std::int64_t count, Body body) {
  for (std::int64_t done = 0; done < count;) {
    const auto position = static_cast<std::uint64_t>(first + done);
    const auto block = random_block(seed, position / lanes);
    const auto begin = static_cast<std::int64_t>(position % lanes);
    const auto end = std::min(lanes, begin + count - done);
    body(done, block, begin, end);
    done += end - begin;
  }
}

template <class T>
double widened(T value) {
  return static_cast<double>(value);
}

/// float16 and bfloat16 convert from float32 only.
template <class T>
T narrowed(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<T>(static_cast<float>(value));
}

template <class T>
double largest() {
  return widened(std::numeric_limits<T>::max());
}

/// The next number of T above a finite one (below it for -1).
template <class T>
T neighbour(T value, int direction) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  const auto bits = std::bit_cast<Bits>(value);
  constexpr auto sign = static_cast<Bits>(Bits{1} << (sizeof(T) * 8 - 1));
  if ((bits & static_cast<Bits>(~sign)) == 0)  // either zero: the smallest number of that sign
    return std::bit_cast<T>(static_cast<Bits>(direction < 0 ? sign | 1 : 1));
  const bool away = ((bits & sign) != 0) == (direction < 0);
  return std::bit_cast<T>(static_cast<Bits>(away ? bits + 1 : bits - 1));
}

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string text_of(const c10::Scalar& value) {
  if (value.isFloatingPoint()) return text_of(value.toDouble());
  if (value.isUnsigned()) return std::to_string(value.toUInt64());
  return std::to_string(value.toLong());
}

[[noreturn]] void refuse(const std::string& what) { throw FillError("this table cannot be filled: " + what); }

template <class T>
void require_holds(double value, at::ScalarType dtype) {
  if (!(std::abs(value) <= largest<T>()))
    refuse(std::string(c10::toString(dtype)) + " does not hold " + text_of(value));
}

template <class T>
Writer uniform_floating(const Uniform& with, at::ScalarType dtype) {
  if (with.low.isComplex() || with.high.isComplex()) refuse("a bound is complex");
  const double low = with.low.toDouble(), high = with.high.toDouble(), span = high - low;
  require_holds<T>(low, dtype);
  require_holds<T>(high, dtype);
  require_holds<double>(span, at::kDouble);
  auto least = narrowed<T>(low), most = narrowed<T>(high);
  if (widened(least) < low) least = neighbour(least, 1);
  if (widened(most) >= high) most = neighbour(most, -1);
  const double bottom = widened(least), top = widened(most);
  if (!(bottom <= top))
    refuse(std::string(c10::toString(dtype)) + " has no number from " + text_of(with.low) + " to below " +
           text_of(with.high));
  return [=, seed = *with.seed](void* data, std::int64_t first, std::int64_t count) {
    each_block(seed, first, count, [&](auto done, const PhiloxBlock& words, auto begin, auto end) {
      for (auto lane = begin; lane < end; ++lane) {
        const double unit = static_cast<double>(words[static_cast<std::size_t>(lane)] >> 11) * unit_step;
        static_cast<T*>(data)[done + lane - begin] = narrowed<T>(std::clamp(low + span * unit, bottom, top));
      }
    });
  };
}

__int128 whole_number(const c10::Scalar& value) {
  if (!value.isFloatingPoint())
    return value.isUnsigned() ? static_cast<__int128>(value.toUInt64()) : value.toLong();
  const double number = value.toDouble();
  if (number != std::floor(number) || std::abs(number) > 0x1p64)
    refuse("the bound " + text_of(number) + " is not a whole number that the dtype can hold");
  return static_cast<__int128>(number);
}

/// Maps the word of a position to one of `range` numbers without bias (Lemire 2019); range 0 stands for 2^64.
std::uint64_t even_number(std::uint64_t word, std::uint64_t range, std::uint64_t biased, std::uint64_t seed,
                          std::uint64_t position) {
  if (range == 0) return word;
  auto product = static_cast<unsigned __int128>(word) * range;
  for (std::uint64_t attempt = 1; static_cast<std::uint64_t>(product) < biased; ++attempt)
    product =
        static_cast<unsigned __int128>(random_block(seed, position / lanes, attempt)[position % lanes]) *
        range;
  return static_cast<std::uint64_t>(product >> 64);
}

template <class T>
Writer uniform_integers(const Uniform& with, at::ScalarType dtype) {
  if (with.low.isComplex() || with.high.isComplex()) refuse("a bound is complex");
  const auto low = whole_number(with.low), high = whole_number(with.high);
  if (low < std::numeric_limits<T>::min() ||
      high - 1 > static_cast<__int128>(std::numeric_limits<T>::max()) || low >= high)
    refuse(std::string(c10::toString(dtype)) + " has no integers from " + text_of(with.low) + " to below " +
           text_of(with.high));
  const auto bottom = static_cast<std::uint64_t>(low), range = static_cast<std::uint64_t>(high - low);
  const auto biased = range == 0 ? 0 : (0 - range) % range;
  return [=, seed = *with.seed](void* data, std::int64_t first, std::int64_t count) {
    each_block(seed, first, count, [&](auto done, const PhiloxBlock& words, auto begin, auto end) {
      for (auto lane = begin; lane < end; ++lane) {
        const auto at = done + lane - begin;
        const auto number = even_number(words[static_cast<std::size_t>(lane)], range, biased, seed,
                                        static_cast<std::uint64_t>(first + at));
        static_cast<T*>(data)[at] = static_cast<T>(bottom + number);
      }
    });
  };
}

std::array<double, lanes> normal_block(const PhiloxBlock& words) {
  std::array<double, lanes> numbers{};
  for (std::size_t pair = 0; pair < numbers.size(); pair += 2) {
    const double length = std::sqrt(-2 * std::log(static_cast<double>((words[pair] >> 11) + 1) * unit_step));
    const double angle = 2 * std::numbers::pi * (static_cast<double>(words[pair + 1] >> 11) * unit_step);
    numbers[pair] = length * std::cos(angle);
    numbers[pair + 1] = length * std::sin(angle);
  }
  return numbers;
}

template <class T>
Writer normal_floating(const Normal& with, at::ScalarType dtype) {
  if (!(with.std >= 0)) refuse("the standard deviation " + text_of(with.std) + " is negative or NaN");
  require_holds<T>(std::abs(with.mean) + furthest_normal * with.std, dtype);
  return [with](void* data, std::int64_t first, std::int64_t count) {
    each_block(*with.seed, first, count, [&](auto done, const PhiloxBlock& words, auto begin, auto end) {
      const auto numbers = normal_block(words);
      for (auto lane = begin; lane < end; ++lane)
        static_cast<T*>(data)[done + lane - begin] =
            narrowed<T>(with.mean + with.std * numbers[static_cast<std::size_t>(lane)]);
    });
  };
}

template <class T>
Writer writer(const Uniform& with, at::ScalarType dtype) {
  if constexpr (std::is_integral_v<T>)
    return uniform_integers<T>(with, dtype);
  else
    return uniform_floating<T>(with, dtype);
}

template <class T>
Writer writer(const Normal& with, at::ScalarType dtype) {
  if constexpr (std::is_integral_v<T>)
    refuse(std::string(c10::toString(dtype)) + " cannot hold a normal distribution");
  else
    return normal_floating<T>(with, dtype);
}

template <class Numbers>
Writer writer_of(const Numbers& with, at::ScalarType dtype) {
  constexpr std::array floating{at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
  if (!at::isIntegralType(dtype, true) && std::ranges::find(floating, dtype) == floating.end())
    refuse(std::string("random numbers of dtype ") + c10::toString(dtype) + " are not supported");
  return AT_DISPATCH_V2(dtype, "fill", AT_WRAP([&]() -> Writer { return writer<scalar_t>(with, dtype); }),
                        AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kHalf,
                        at::kBFloat16, at::kBool);
}

/// `numbers` with a seed; without one each table gets another. LibTorch's generator locks itself.
template <class Numbers>
Numbers seeded(Numbers numbers, std::int64_t first) {
  if (numbers.seed) return numbers;
  if (first != 0)
    refuse("position " + std::to_string(first) + " is inside a table; a window needs the table's seed");
  numbers.seed = static_cast<std::uint64_t>(at::empty({1}, at::kLong).random_().item<std::int64_t>());
  return numbers;
}

Writer zeros(std::int64_t element_bytes) {
  return [element_bytes](void* data, std::int64_t, std::int64_t count) {
    std::memset(data, 0, static_cast<std::size_t>(count * element_bytes));
  };
}

/// A fill by pieces as a writer of whole rows of `row_shape`.
Writer by_pieces(const ByPieces& with, at::IntArrayRef row_shape, at::ScalarType dtype) {
  const auto row_elements = c10::multiply_integers(row_shape);
  std::vector<std::int64_t> shape{0};
  shape.insert(shape.end(), row_shape.begin(), row_shape.end());
  return [=](void* data, std::int64_t first, std::int64_t count) {
    auto piece = shape;
    piece[0] = count / row_elements;
    // Not a view of the table's tensor: other threads could not write to a tensor of the caller's inference
    // mode.
    auto rows = at::from_blob(data, piece, at::TensorOptions().dtype(dtype));
    with(rows, first / row_elements);
  };
}

void fill_whole(at::Tensor& table, const Custom& with, std::int64_t first) {
  if (first != 0)
    refuse("a Custom fill sets whole tables, and position " + std::to_string(first) +
           " is inside one; use ByPieces");
  const at::NoGradGuard unrecorded;
  bump_version(table);
  with(table);
}

/// A fill of a tensor: `write`, called for pieces of `piece` elements from the tensor's start.
struct Work {
  Writer write;
  std::int64_t piece = piece_elements;
};

Work work_of(const Fill& with, const at::Tensor& tensor, std::int64_t first) {
  const auto dtype = tensor.scalar_type();
  if (const auto* uniform = std::get_if<Uniform>(&with)) return {writer_of(seeded(*uniform, first), dtype)};
  if (const auto* normal = std::get_if<Normal>(&with)) return {writer_of(seeded(*normal, first), dtype)};
  if (std::holds_alternative<Zeros>(with)) return {zeros(tensor.element_size())};
  if (tensor.dim() == 0)
    throw ShapeError("a fill by pieces sets rows, and a tensor of no dimensions has none");
  const auto row_shape = tensor.sizes().slice(1);
  const auto row_elements = c10::multiply_integers(row_shape);
  if (row_elements == 0 || first % row_elements != 0)
    throw ShapeError("a fill by pieces sets whole rows of " + std::to_string(row_elements) +
                     " elements; position " + std::to_string(first) + " is not the start of a row");
  const auto rows = std::max<std::int64_t>(1, row_piece_bytes / (row_elements * tensor.element_size()));
  return {by_pieces(std::get<ByPieces>(with), row_shape, dtype), rows * row_elements};
}

void fill_host(void* data, std::int64_t element_bytes, const Work& work, std::int64_t first,
               std::int64_t count) {
  const auto pieces = (count + work.piece - 1) / work.piece;
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto piece = begin; piece < end; ++piece) {
      const auto from = piece * work.piece;
      work.write(static_cast<std::byte*>(data) + from * element_bytes, first + from,
                 std::min(work.piece, count - from));
    }
  });
}

/// Through a block on the host, so that the numbers are the same in every placement.
void fill_staged(at::Tensor& tensor, const Work& work, std::int64_t first) {
  auto elements = tensor.view({-1});
  const auto count = elements.numel(), element_bytes = static_cast<std::int64_t>(tensor.element_size());
  const auto pieces = std::max<std::int64_t>(1, staged_fill_bytes / (work.piece * element_bytes));
  const auto block_elements = std::min(count, pieces * work.piece);
  const auto block = at::empty({block_elements}, tensor.options().device(at::kCPU));
  for (std::int64_t from = 0; from < count; from += block_elements) {
    const auto now = std::min(block_elements, count - from);
    fill_host(block.data_ptr(), element_bytes, work, first + from, now);
    elements.narrow(0, from, now).copy_(block.narrow(0, 0, now));
  }
}

}  // namespace

void fill(at::Tensor& tensor, const Fill& with, std::int64_t first) {
  check_in_memory(tensor, "what is filled");
  check_writable(tensor, "what is filled");
  if (!tensor.is_contiguous()) throw ShapeError("only a contiguous tensor can be filled in place");
  if (first < 0) throw ShapeError("position " + std::to_string(first) + " is before the table");
  if (tensor.numel() == 0) return;
  auto target = tensor.detach();
  if (const auto* custom = std::get_if<Custom>(&with)) return fill_whole(target, *custom, first);
  const auto work = work_of(with, target, first);
  if (!target.is_cpu() && std::holds_alternative<Zeros>(with)) {
    target.zero_();
  } else if (target.is_cpu()) {
    bump_version(target);  // first, because a fill by pieces may throw after it has set rows
    fill_host(target.data_ptr(), static_cast<std::int64_t>(target.element_size()), work, first,
              target.numel());
  } else {
    fill_staged(target, work, first);
  }
}

}  // namespace speedtorch
