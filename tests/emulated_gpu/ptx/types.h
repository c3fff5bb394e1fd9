/// The types of PTX's instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "tests/emulated_gpu/ptx/half.h"

namespace emulated_gpu {

enum class Type : std::uint8_t {
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  b8,
  b16,
  b32,
  b64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f64,
  pred
};

/// Which family of instructions a type belongs to.
enum class TypeClass : std::uint8_t { none, integer, real, half, predicate };

std::optional<Type> type_named(std::string_view name);
std::string_view name_of(Type type);
/// Of a value; 0 for a predicate.
unsigned bytes_of(Type type);
TypeClass class_of(Type type);
bool is_signed(Type type);
bool is_packed(Type type);  ///< two halves

/// Calls `use` with a value of the C++ type of a type: unsigned for bits, Half and Bfloat for the half types.
/// @throws std::invalid_argument for a predicate and packed types
template <class Use>
auto with_type(Type type, Use use) {
  switch (type) {
    case Type::u8:
    case Type::b8:
      return use(std::uint8_t{});
    case Type::u16:
    case Type::b16:
      return use(std::uint16_t{});
    case Type::u32:
    case Type::b32:
      return use(std::uint32_t{});
    case Type::u64:
    case Type::b64:
      return use(std::uint64_t{});
    case Type::s8:
      return use(std::int8_t{});
    case Type::s16:
      return use(std::int16_t{});
    case Type::s32:
      return use(std::int32_t{});
    case Type::s64:
      return use(std::int64_t{});
    case Type::f16:
      return use(Half{});
    case Type::bf16:
      return use(Bfloat{});
    case Type::f32:
      return use(float{});
    case Type::f64:
      return use(double{});
    default:
      throw std::invalid_argument("no such type here");
  }
}

/// The same for the integers of 16 bits and more.
template <class Use>
auto with_integer(Type type, Use use) {
  using Result = decltype(use(std::uint16_t{}));
  return with_type(type, [&](auto value) -> Result {
    using Value = decltype(value);
    if constexpr (std::is_integral_v<Value> && sizeof(Value) >= 2)
      return use(value);
    else
      throw std::invalid_argument("no such integer here");
  });
}

/// Calls `use` with an unsigned value of so many bytes: 2, 4 or 8. @throws std::invalid_argument for others
template <class Use>
auto with_row(unsigned bytes, Use use) {
  switch (bytes) {
    case 2:
      return use(std::uint16_t{});
    case 4:
      return use(std::uint32_t{});
    case 8:
      return use(std::uint64_t{});
    default:
      throw std::invalid_argument("no such size");
  }
}

/// Calls `use` with a number below kCount as a constant: what its type's `value` says.
template <std::size_t kCount, class Use>
auto with_number(std::size_t number, Use use) {
  if constexpr (kCount == 1) {
    return use(std::integral_constant<std::size_t, 0>{});
  } else {
    if (number == kCount - 1) return use(std::integral_constant<std::size_t, kCount - 1>{});
    return with_number<kCount - 1>(number, use);
  }
}

}  // namespace emulated_gpu
